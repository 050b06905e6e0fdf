package org.ep4j.bench;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Traffic of an operation between GPUs of several nodes, per rank.
 *
 * @param scaleOut bytes sent to other nodes, each row once per node; a rank receives as many
 * @param scaleUp bytes of rows received from other ranks of the node, including forwarded rows
 */
public record NodeTraffic(double scaleOut, double scaleUp) {
  /** GB/s in each direction. */
  public double scaleOutGbps(double micros) {
    return scaleOut / micros / 1e3;
  }

  public double scaleUpGbps(double micros) {
    return scaleUp / micros / 1e3;
  }

  public Map<String, Object> tree(double micros) {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("scale_out_bytes", scaleOut);
    tree.put("scale_up_bytes", scaleUp);
    tree.put("scale_out_gbps", scaleOutGbps(micros));
    tree.put("scale_up_gbps", scaleUpGbps(micros));
    return tree;
  }
}
