package org.ep4j.cli.report;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * One measured operation of a run. Numbers that were not measured are NaN.
 *
 * @param label its name in this run
 * @param operation {@code dispatch}, {@code combine}, {@code ll_dispatch}, ...
 * @param dtype format of its rows
 * @param how how low latency was called on GPUs: {@code calls}, {@code graph}, {@code alone}; else
 *     empty
 * @param tokens tokens of a rank, where results differ in them
 * @param sms SMs, where results differ in them; 0: chosen by the engine
 * @param backend how GPUs reach each other; else empty
 * @param iterations number of timed iterations
 * @param median microseconds
 * @param p99 microseconds; NaN of fewer than 100 iterations
 * @param min microseconds
 * @param max microseconds
 * @param kernel median of the kernels alone, microseconds
 * @param host median of the calling thread, microseconds
 * @param logicalGbps GB/s of received rows, own rank included
 * @param remoteGbps GB/s of rows from other ranks
 * @param ceiling microseconds in which this machine moves the same bytes without protocol
 * @param betweenNodes GB/s of a rank to other nodes
 * @param betweenNodesCeiling limit of that, measured in the same run
 * @param steady whether the operation had stopped becoming faster
 * @param samples duration of each iteration in microseconds, in their order; may be empty
 */
public record Measured(
    String label,
    String operation,
    String dtype,
    String how,
    double tokens,
    double sms,
    String backend,
    int iterations,
    double median,
    double p99,
    double min,
    double max,
    double kernel,
    double host,
    double logicalGbps,
    double remoteGbps,
    double ceiling,
    double betweenNodes,
    double betweenNodesCeiling,
    boolean steady,
    double[] samples) {
  private static final String LOW_LATENCY = "ll_";

  /** Older artifacts call the slowest of fewer iterations p99. */
  private static final int FEWEST_FOR_P99 = 100;

  /** Reads a result of an artifact. */
  static Measured of(Fields result) {
    return of(result, "");
  }

  private static Measured of(Fields result, String label) {
    int iterations = (int) result.number("iterations");
    double[] samples = result.numbers("iterations_us");
    if (samples.length != 0 && samples.length != iterations) {
      throw Fields.bad(
          result.place() + ".iterations_us",
          samples.length + " numbers",
          "as many as iterations, " + iterations);
    }
    double out = Double.NaN;
    double outCeiling = Double.NaN;
    if (result.has("between_nodes")) {
      Fields nodes = result.object("between_nodes");
      out = nodes.numberOrNaN("gbps_each_way");
      outCeiling = nodes.numberOrNaN("wire_alone_gbps_each_way");
    } else if (result.has("nodes")) {
      Fields nodes = result.object("nodes");
      out = nodes.numberOrNaN("scale_out_gbps");
      outCeiling = nodes.numberOrNaN("ceiling_gbps_each_way");
    }
    return new Measured(
        label,
        result.text("op"),
        result.text("dtype"),
        result.has("as") ? result.text("as") : "",
        result.numberOrNaN("tokens"),
        result.numberOrNaN("sms"),
        result.has("backend") ? result.text("backend") : "",
        iterations,
        result.number("median_us"),
        iterations < FEWEST_FOR_P99 ? Double.NaN : result.numberOrNaN("p99_us"),
        result.number("min_us"),
        result.number("max_us"),
        result.numberOrNaN("kernel_median_us"),
        result.numberOrNaN("host_median_us"),
        result.numberOrNaN("logical_gbps"),
        result.numberOrNaN("remote_gbps"),
        result.numberOrNaN("ceiling_us"),
        out,
        outCeiling,
        !Boolean.FALSE.equals(result.values().get("steady")),
        samples);
  }

  /**
   * Reads the results of an artifact and names them: two of a run never have the same name.
   *
   * @param results all results, in their order
   */
  static List<Measured> all(List<Fields> results) {
    boolean backends =
        results.stream().map(result -> result.values().get("backend")).distinct().count() > 1;
    Set<String> names = new HashSet<>();
    List<Measured> named = new ArrayList<>();
    String dispatched = "";
    for (Fields fields : results) {
      Measured result = of(fields);
      dispatched = result.operation.equals("dispatch") ? result.dtype : dispatched;
      String name = result.work();
      // Rows return in another format than they came in: bench measures a combine after each.
      if (result.operation.startsWith("combine")
          && !dispatched.isEmpty()
          && !dispatched.equals(result.dtype)) {
        name += ", after " + dispatched;
      }
      name += result.sms > 0 ? ", %.0f SMs".formatted(result.sms) : "";
      name += backends ? ", " + result.backend : "";
      String unique = name;
      for (int i = 2; !names.add(unique); i++) {
        unique = name + " (" + i + ")";
      }
      named.add(of(fields, unique));
    }
    return List.copyOf(named);
  }

  /** Whether it is an operation of low latency. */
  boolean lowLatency() {
    return operation.startsWith(LOW_LATENCY) || !how.isEmpty();
  }

  /** The upper end of what was usual: p99, or the maximum of few iterations. */
  double high() {
    return Double.isNaN(p99) ? max : p99;
  }

  /** What the operation does, without how many SMs or which backend do it. */
  String work() {
    StringBuilder work = new StringBuilder(operation).append(' ').append(dtype);
    if (!how.isEmpty()) {
      work.append(", ").append(how);
    }
    if (!Double.isNaN(tokens)) {
      work.append(", %.0f %s".formatted(tokens, tokens == 1 ? "token" : "tokens"));
    }
    return work.toString();
  }

  /** With how many SMs and which backend. */
  String variant() {
    StringBuilder variant = new StringBuilder();
    if (sms > 0) {
      variant.append("%.0f SMs".formatted(sms));
    }
    if (!backend.isEmpty()) {
      variant.append(variant.isEmpty() ? "" : ", ").append(backend);
    }
    return variant.toString();
  }
}
