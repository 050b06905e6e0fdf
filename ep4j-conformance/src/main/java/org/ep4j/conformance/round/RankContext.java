package org.ep4j.conformance.round;

import java.lang.foreign.Arena;
import java.util.SplittableRandom;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.EngineName;
import org.ep4j.conformance.world.CaseWatchdog;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * State for the steps of a random case on one rank.
 *
 * @param buffer the buffer
 * @param shape its shape
 * @param shared draws values that all ranks must agree on: every rank draws the same in the same
 *     order
 * @param own draws values that may differ between ranks
 * @param deviceArena memory of the rank's device for tensors of a step
 * @param counts operations so far
 */
public record RankContext(
    ExpertBuffer buffer,
    Shape shape,
    SplittableRandom shared,
    SplittableRandom own,
    DeviceArena deviceArena,
    Counts counts) {
  /**
   * Number of operations so far, as the buffer's statistics should count them, and the last one.
   */
  public static final class Counts {
    /** Volatile: {@link CaseWatchdog} reads it from another thread. */
    public volatile String last = "open";

    public long dispatches;
    public long combines;
    public long lowLatencyDispatches;
    public long lowLatencyCombines;

    /** No operation yet. */
    public Counts() {}
  }

  /** Whether the engine of the host runs the operations. */
  boolean onHost() {
    return buffer.engine().equals(EngineName.HOST);
  }

  /** A context with its own stream of shared draws, for a part that some ranks may not finish. */
  public RankContext branch() {
    SplittableRandom branch = new SplittableRandom(shared.nextLong());
    return new RankContext(buffer, shape, branch, own, deviceArena, counts);
  }

  /** Records the next operation, for the report of a failure. */
  public void next(String operation) {
    counts.last = operation;
  }

  /** A tensor with undefined content in any kind of memory that a caller may use. */
  public Tensor empty(Arena arena, DType dtype, long... shape) {
    Tensor onDevice =
        deviceArena.exists() && own.nextInt(3) != 0 ? deviceArena.tensor(dtype, shape) : null;
    return onDevice == null ? Batch.empty(dtype, own, arena, shape) : onDevice;
  }

  public int rank() {
    return buffer.rank();
  }
}
