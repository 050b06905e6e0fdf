package org.ep4j.plan;

/**
 * Rows of a dispatch that pass a rank; a combine returns the same rows the other direction. Means,
 * therefore not whole numbers. A row that stays on its rank passes no link but counts as sent and
 * received.
 *
 * @param sent rows that its tokens become, one a receiving rank (low latency: one an expert)
 * @param received rows that it receives
 * @param nodeRows rows that its tokens become, one a receiving node, their own node included
 * @param nvlinkOut rows that it sends over NVLink, rows of other nodes that it forwards included
 * @param nvlinkIn rows that it receives over NVLink
 * @param nicOut rows that it sends over its NIC
 * @param nicIn rows that it receives over its NIC
 * @param nodeRowsIn rows that it hands to ranks of its node: its own, and those from other nodes
 */
public record RankTraffic(
    double sent,
    double received,
    double nodeRows,
    double nvlinkOut,
    double nvlinkIn,
    double nicOut,
    double nicIn,
    double nodeRowsIn) {
  /** Rows of the busier direction of NVLink. */
  double nvlink() {
    return Math.max(nvlinkOut, nvlinkIn);
  }

  /** Rows of the busier direction of the NIC. */
  double nic() {
    return Math.max(nicOut, nicIn);
  }
}
