package org.ep4j.plan;

import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;

/**
 * The predicted time of an operation.
 *
 * @param micros of its kernels, on the slowest rank
 * @param callMicros of the whole call
 * @param gbps mean bytes of a rank over {@code micros}, in the unit of published tables: high
 *     throughput on one node counts received rows, between nodes a row once a receiving node, own
 *     rank and own node included; low latency counts a row once an expert
 * @param limit the largest term
 * @param terms each part alone, in microseconds; parts that overlap do not add up to {@code micros}
 * @param path the terms that make up {@code micros}: all of high throughput, those of the slowest
 *     path of low latency
 */
public record Prediction(
    double micros,
    double callMicros,
    double gbps,
    Term limit,
    Map<Term, Double> terms,
    Set<Term> path) {
  /** Copies the terms. */
  public Prediction {
    terms = Collections.unmodifiableMap(new EnumMap<>(terms));
    path = Collections.unmodifiableSet(EnumSet.copyOf(path));
  }

  /** What the overlapping terms take together: {@code micros} without the terms that add to it. */
  public double overlappedMicros() {
    double micros = this.micros;
    for (Map.Entry<Term, Double> term : terms.entrySet()) {
      micros -= term.getKey().overlaps() ? 0 : term.getValue();
    }
    return micros;
  }

  static Prediction of(
      double micros,
      double callMicros,
      double bytes,
      Map<Term, Double> candidates,
      Map<Term, Double> terms) {
    Term limit = Collections.max(candidates.entrySet(), Map.Entry.comparingByValue()).getKey();
    return new Prediction(
        micros, callMicros, bytes / micros / 1e3, limit, terms, candidates.keySet());
  }
}
