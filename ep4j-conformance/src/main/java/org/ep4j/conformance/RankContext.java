package org.ep4j.conformance;

import java.util.SplittableRandom;
import org.ep4j.ExpertBuffer;

/**
 * What the steps of a random case work with on one rank.
 *
 * @param buffer the buffer
 * @param shape its shape
 * @param shared draws what all ranks must agree on: every rank draws the same in the same order
 * @param own draws what is this rank's own business
 * @param counts operations done so far
 */
record RankContext(
    ExpertBuffer buffer,
    Shape shape,
    SplittableRandom shared,
    SplittableRandom own,
    Counts counts) {
  /** Operations done so far, as the buffer's statistics should count them, and the last one. */
  static final class Counts {
    String last = "open";
    long dispatches;
    long combines;
    long lowLatencyDispatches;
    long lowLatencyCombines;
  }

  /**
   * A context with a stream of shared draws of its own, for a part that not all ranks go through to
   * its end.
   */
  RankContext branch() {
    return new RankContext(buffer, shape, new SplittableRandom(shared.nextLong()), own, counts);
  }

  /** Remembers what is done next, for the report of a failure. */
  void next(String operation) {
    counts.last = operation;
  }

  int rank() {
    return buffer.rank();
  }
}
