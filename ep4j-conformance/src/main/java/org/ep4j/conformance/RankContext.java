package org.ep4j.conformance;

import java.lang.foreign.Arena;
import java.util.SplittableRandom;
import org.ep4j.DType;
import org.ep4j.ExpertBuffer;
import org.ep4j.Tensor;

/**
 * What the steps of a random case work with on one rank.
 *
 * @param buffer the buffer
 * @param shape its shape
 * @param shared draws what all ranks must agree on: every rank draws the same in the same order
 * @param own draws what is this rank's own business
 * @param deviceArena memory of the rank's device for tensors of a step
 * @param counts operations done so far
 */
record RankContext(
    ExpertBuffer buffer,
    Shape shape,
    SplittableRandom shared,
    SplittableRandom own,
    DeviceArena deviceArena,
    Counts counts) {
  /** Operations done so far, as the buffer's statistics should count them, and the last one. */
  static final class Counts {
    /** Volatile: {@link CaseWatchdog} reads it meanwhile. */
    volatile String last = "open";

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
    SplittableRandom branch = new SplittableRandom(shared.nextLong());
    return new RankContext(buffer, shape, branch, own, deviceArena, counts);
  }

  /** Remembers what is done next, for the report of a failure. */
  void next(String operation) {
    counts.last = operation;
  }

  /** A tensor of any bytes in memory of any kind that a caller may have. */
  Tensor empty(Arena arena, DType dtype, long... shape) {
    Tensor onDevice =
        deviceArena.exists() && own.nextInt(3) != 0 ? deviceArena.tensor(dtype, shape) : null;
    return onDevice == null ? Batch.empty(dtype, own, arena, shape) : onDevice;
  }

  int rank() {
    return buffer.rank();
  }
}
