package org.ep4j.plan;

import java.util.EnumMap;
import java.util.Map;

/**
 * Time of a high-throughput operation: transfer of the slowest rank, pipeline fill, fixed costs.
 * All times are microseconds, all rates GB/s.
 *
 * <p>Links, SMs and memory work at the same time. Were they never short of work, the transfer would
 * take as long as the longest term. They do wait for one another where two terms are similar, so
 * the transfer is the cube root of the sum of the terms' cubes: the longest term if one dominates,
 * 26 % more if two are equal.
 */
final class HighThroughputModel {
  private final Operation operation;
  private final PlanRequest request;

  private HighThroughputModel(Operation operation) {
    this.operation = operation;
    request = operation.request();
  }

  static Prediction predict(Operation operation, Traffic traffic) {
    return new HighThroughputModel(operation).predict(traffic);
  }

  private Prediction predict(Traffic traffic) {
    double longest = -1;
    double unitRows = 0;
    Map<Term, Double> terms = new EnumMap<>(Term.class);
    for (RankTraffic rank : traffic.ranks()) {
      unitRows += request.nodes() > 1 ? rank.nodeRows() : rank.received();
      Map<Term, Double> transfers = transfers(rank);
      double time = overlapped(transfers);
      if (time > longest) {
        longest = time;
        terms = transfers;
      }
    }
    terms.put(Term.FILL, fill());
    terms.put(Term.FIXED, operation.kernelMicros());
    terms.put(Term.INCAST, operation.incastMicros());
    double micros = longest + terms.get(Term.FILL) + terms.get(Term.FIXED) + terms.get(Term.INCAST);
    double bytes = unitRows / request.ranks() * operation.rowBytes();
    return operation.predicted(micros, bytes, terms, terms);
  }

  private Map<Term, Double> transfers(RankTraffic rank) {
    Map<Term, Double> terms = new EnumMap<>(Term.class);
    terms.put(Term.NVLINK, nvlink(rank));
    terms.put(Term.NIC, nic(rank));
    terms.put(Term.SM, sm(rank));
    terms.put(Term.MEMORY, memory(rank));
    return terms;
  }

  /** (nvlink^3 + nic^3 + sm^3 + memory^3)^(1/3). */
  static double overlapped(Map<Term, Double> terms) {
    double sum = 0;
    for (Map.Entry<Term, Double> term : terms.entrySet()) {
      double micros = term.getKey().overlaps() ? term.getValue() : 0;
      sum += micros * micros * micros;
    }
    return Math.cbrt(sum);
  }

  /** Rows of the busier direction x bytes / rate. */
  private double nvlink(RankTraffic rank) {
    return rank.nvlink() * operation.rowBytes() / operation.nvlinkGbps() / 1e3;
  }

  /** Rows of the busier direction x bytes / (rate x ports). */
  private double nic(RankTraffic rank) {
    return rank.nic() * operation.rowBytes() / operation.profile().nicGbps() / 1e3;
  }

  /**
   * Rows x time of an SM / SMs. Between nodes, rows are those handed to nodes, on one node those to
   * ranks.
   */
  private double sm(RankTraffic rank) {
    boolean internode = request.nodes() > 1;
    double rows =
        internode
            ? Math.max(rank.nodeRows(), rank.nodeRowsIn())
            : Math.max(rank.sent(), rank.received());
    return rows * operation.smRowMicros() / request.sms();
  }

  /** A received row is written once and read once: 2 x rows x bytes / rate. */
  private double memory(RankTraffic rank) {
    double rows = Math.max(rank.sent(), rank.received());
    return 2 * rows * operation.rowBytes() / operation.value(ProfileConstant.MEMORY_GBPS) / 1e3;
  }

  /** Hops x latency, and between nodes a chunk x bytes / rate of the NIC. */
  private double fill() {
    double hop = operation.value(ProfileConstant.HOP_US);
    return request.nodes() == 1
        ? hop
        : 2 * hop
            + Operation.CHUNK_ROWS * operation.rowBytes() / operation.profile().nicGbps() / 1e3;
  }
}
