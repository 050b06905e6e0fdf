package org.ep4j.bench;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Traffic of an operation between GPUs of several nodes, per rank.
 *
 * @param scaleOut bytes sent to other nodes, each row once per node; a rank receives as many
 * @param withOwnNode the same with rows to the token's own node counted, as DeepEP's benchmark does
 * @param scaleUp bytes of rows received from other ranks of the node, including forwarded rows
 */
public record NodeTraffic(double scaleOut, double withOwnNode, double scaleUp) {
  /** Field of artifacts for {@link #withOwnNodeGbps}. */
  public static final String WITH_OWN_NODE = "scale_out_gbps_with_own_node";

  /** GB/s in each direction. */
  public double scaleOutGbps(double micros) {
    return scaleOut / micros / 1e3;
  }

  /** GB/s in each direction in the unit of DeepEP's benchmark. */
  public double withOwnNodeGbps(double micros) {
    return withOwnNode / micros / 1e3;
  }

  public double scaleUpGbps(double micros) {
    return scaleUp / micros / 1e3;
  }

  public Map<String, Object> tree(double micros) {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("scale_out_bytes", scaleOut);
    tree.put("scale_up_bytes", scaleUp);
    tree.put("scale_out_gbps", scaleOutGbps(micros));
    tree.put(WITH_OWN_NODE, withOwnNodeGbps(micros));
    tree.put("scale_up_gbps", scaleUpGbps(micros));
    return tree;
  }
}
