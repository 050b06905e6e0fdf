package org.ep4j.cli.bench;

import java.util.LinkedHashMap;
import java.util.Map;
import org.ep4j.bench.NodeTraffic;

/**
 * Traffic of an operation between nodes, per rank.
 *
 * @param wire kind of wire
 * @param lanes lanes of the wire to each rank
 * @param rows rows that a rank sends to other nodes, each once per node; mean of ranks and input
 *     sets. A rank receives as many
 * @param bytes bytes of those rows
 * @param bytesWithOwnNode bytes with rows to the token's own node counted, as DeepEP's benchmark
 *     does
 * @param wireGbps rate of the wire alone with all ranks sending, in each direction
 */
record InternodeTraffic(
    String wire, int lanes, double rows, double bytes, double bytesWithOwnNode, double wireGbps) {
  /** GB/s in each direction. */
  double gbps(double micros) {
    return bytes / micros / 1e3;
  }

  /** GB/s in each direction in the unit of DeepEP's benchmark. */
  double withOwnNodeGbps(double micros) {
    return bytesWithOwnNode / micros / 1e3;
  }

  Map<String, Object> tree(double micros) {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("wire", wire);
    tree.put("lanes", lanes);
    tree.put("rows", rows);
    tree.put("bytes", bytes);
    tree.put("gbps_each_way", gbps(micros));
    tree.put(NodeTraffic.WITH_OWN_NODE, withOwnNodeGbps(micros));
    tree.put("wire_alone_gbps_each_way", wireGbps);
    tree.put("percent_of_wire", 100 * gbps(micros) / wireGbps);
    return tree;
  }
}
