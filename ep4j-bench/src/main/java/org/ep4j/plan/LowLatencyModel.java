package org.ep4j.plan;

import java.util.EnumMap;
import java.util.Map;

/**
 * Time of a low-latency operation: the slowest of three paths that work at the same time. NVLink to
 * ranks of the node and NICs to all others take fixed + bytes / rate + incast on their slowest
 * rank; the memory that all rows pass takes bytes / rate. All times are microseconds, all rates
 * GB/s.
 */
final class LowLatencyModel {
  private final Operation operation;
  private final PlanRequest request;

  private LowLatencyModel(Operation operation) {
    this.operation = operation;
    request = operation.request();
  }

  static Prediction predict(Operation operation, Traffic traffic) {
    return new LowLatencyModel(operation).predict(traffic);
  }

  private Prediction predict(Traffic traffic) {
    double nvlinkRows = 0;
    double nicRows = 0;
    double rows = 0;
    double sent = 0;
    for (RankTraffic rank : traffic.ranks()) {
      nvlinkRows = Math.max(nvlinkRows, rank.nvlink());
      nicRows = Math.max(nicRows, rank.nic());
      sent += rank.sent();
      rows = Math.max(rows, Math.max(rank.sent(), rank.received()));
    }
    Map<Term, Double> nvlink =
        path(
            Term.NVLINK,
            nvlink(nvlinkRows),
            ProfileConstant.LL_NVLINK_US,
            ProfileConstant.LL_NVLINK_PEER_US,
            request.ranksPerNode() - 1);
    Map<Term, Double> nic =
        path(
            Term.NIC,
            nic(nicRows),
            ProfileConstant.LL_NIC_US,
            ProfileConstant.LL_NIC_PEER_US,
            request.ranks() - request.ranksPerNode());
    Map<Term, Double> memory = new EnumMap<>(Map.of(Term.MEMORY, memory(rows)));
    Map<Term, Double> slowest = nvlink;
    if (request.nodes() > 1 && sum(nic) > sum(slowest)) {
      slowest = nic;
    }
    if (sum(memory) > sum(slowest)) {
      slowest = memory;
    }
    Map<Term, Double> terms = new EnumMap<>(slowest);
    terms.put(Term.NVLINK, nvlink(nvlinkRows));
    terms.put(Term.NIC, nic(nicRows));
    terms.put(Term.MEMORY, memory(rows));
    double micros = sum(slowest);
    double bytes = sent / request.ranks() * operation.rowBytes();
    return operation.predicted(micros, bytes, slowest, terms);
  }

  /** The terms of a path: its bytes, its fixed time, and what each of its peers adds. */
  private Map<Term, Double> path(
      Term link, double transfer, ProfileConstant fixed, ProfileConstant ofPeer, int peers) {
    Map<Term, Double> terms = new EnumMap<>(Term.class);
    terms.put(link, transfer);
    terms.put(Term.FIXED, operation.value(fixed));
    terms.put(Term.INCAST, peers * operation.value(ofPeer));
    return terms;
  }

  /** Rows of the busiest rank x bytes / rate. */
  private double nvlink(double rows) {
    return rows * operation.rowBytes() / operation.nvlinkGbps() / 1e3;
  }

  /** Rows of the busiest rank: the longer of bytes / (rate x ports) and messages / message rate. */
  private double nic(double rows) {
    return Math.max(
        rows * operation.rowBytes() / operation.profile().nicGbps() / 1e3,
        rows / operation.value(ProfileConstant.NIC_MMSGS));
  }

  /** A row is written once and read once: 2 x rows of the busiest rank x bytes / rate. */
  private double memory(double rows) {
    return 2 * rows * operation.rowBytes() / operation.value(ProfileConstant.MEMORY_GBPS) / 1e3;
  }

  private static double sum(Map<Term, Double> terms) {
    return terms.values().stream().mapToDouble(Double::doubleValue).sum();
  }
}
