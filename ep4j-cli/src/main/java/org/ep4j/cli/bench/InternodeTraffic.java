package org.ep4j.cli.bench;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What an operation moved between nodes, a rank.
 *
 * @param wire kind of wire
 * @param rows rows that a rank sent to other nodes, each once a node; mean of ranks and input sets.
 *     As many came in
 * @param bytes bytes of those rows
 * @param wireGbps what the wire alone carries from every rank at once, in each direction
 */
record InternodeTraffic(String wire, double rows, double bytes, double wireGbps) {
  /** Bytes over the time, in 10^9 a second and direction. */
  double gbps(double micros) {
    return bytes / micros / 1e3;
  }

  Map<String, Object> tree(double micros) {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("wire", wire);
    tree.put("rows", rows);
    tree.put("bytes", bytes);
    tree.put("gbps_each_way", gbps(micros));
    tree.put("wire_alone_gbps_each_way", wireGbps);
    tree.put("percent_of_wire", 100 * gbps(micros) / wireGbps);
    return tree;
  }
}
