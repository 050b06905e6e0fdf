package org.ep4j.cli.bench;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What an operation moved between GPUs of several nodes, a rank.
 *
 * @param scaleOut bytes that it sent to other nodes, each row once a node; as many came in
 * @param scaleUp bytes of rows that it got from other ranks of its node, forwarded ones among them
 */
record NodeTraffic(double scaleOut, double scaleUp) {
  /** 10^9 bytes a second and direction. */
  double scaleOutGbps(double micros) {
    return scaleOut / micros / 1e3;
  }

  double scaleUpGbps(double micros) {
    return scaleUp / micros / 1e3;
  }

  Map<String, Object> tree(double micros) {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("scale_out_bytes", scaleOut);
    tree.put("scale_up_bytes", scaleUp);
    tree.put("scale_out_gbps", scaleOutGbps(micros));
    tree.put("scale_up_gbps", scaleUpGbps(micros));
    return tree;
  }
}
