package org.ep4j.cli.report;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A sentence for each word and figure of a page. */
final class Glossary {
  private Glossary() {}

  /** The entries for the words that these results use. */
  static Map<String, String> of(List<Measured> results) {
    Map<String, String> entries = new LinkedHashMap<>();
    for (Measured result : results) {
      String meaning = OPERATIONS.get(result.operation());
      if (meaning != null) {
        entries.put(result.operation(), meaning);
      }
    }
    for (Measured result : results) {
      String meaning = CALLS.get(result.how());
      if (meaning != null) {
        entries.put(result.how(), meaning);
      }
    }
    entries.put(
        "median",
        "Half of the iterations were shorter, half were longer; the slowest rank counts.");
    entries.put(
        "p99",
        "99 of 100 iterations were no longer. Given for 100 iterations and more; rare delays show"
            + " here.");
    entries.put("fastest", "The shortest iteration.");
    if (results.stream().anyMatch(result -> result.kernel() > 0)) {
      entries.put("kernel", "Time on the GPU alone, without the host, in the median.");
    }
    if (results.stream().anyMatch(result -> result.host() > 0)) {
      entries.put("host", "Time that the calling thread spends in the call, in the median.");
    }
    entries.put(
        "GB/s", "Gigabytes of rows that a rank receives in a second, its own rows included.");
    entries.put("remote GB/s", "The same without the rows that a rank sends to itself.");
    if (results.stream().anyMatch(result -> result.ceiling() > 0)) {
      entries.put(
          "ceiling",
          "The time in which this machine moves the same bytes without any protocol, measured in"
              + " the same run on all ranks at once.");
      entries.put(
          "% of ceiling",
          "The ceiling divided by the median: near 100 % the hardware is the limit. Far more says"
              + " that other programs disturbed the measurement of the ceiling.");
    }
    if (results.stream().anyMatch(result -> result.betweenNodes() > 0)) {
      entries.put(
          "between nodes",
          "Gigabytes that a rank sends to other nodes in a second; each row counts once a node.");
      entries.put(
          "limit between nodes", "What the network alone carries, measured in the same run.");
    }
    return entries;
  }

  private static final Map<String, String> OPERATIONS =
      Map.ofEntries(
          Map.entry(
              "dispatch",
              "Sends the row of each token to the ranks that hold its experts (high throughput:"
                  + " large batches)."),
          Map.entry(
              "combine",
              "Brings the rows of the experts back to the rank of the token and adds them."),
          Map.entry(
              "ll_dispatch",
              "Dispatch for low latency: few tokens, a row for each expert, as in decoding."),
          Map.entry("ll_combine", "Combine for low latency, with the weights of the experts."),
          Map.entry("ll_pair", "A low-latency dispatch and its combine, one after the other."),
          Map.entry("nothing", "An empty kernel, measured in the same way: the overhead."));

  private static final Map<String, String> CALLS =
      Map.of(
          "calls", "Operations are called one after the other; the time is the period.",
          "graph", "Operations are replayed from a CUDA graph; the time is the period.",
          "alone", "The GPU's part of one half of an operation alone.");
}
