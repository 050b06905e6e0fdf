package org.ep4j.cuda.engine.throughput;

import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.Limits;
import org.ep4j.engine.ReceiveCapacity;
import org.ep4j.engine.world.Nodes;
import org.ep4j.tensor.DType;

/**
 * Bytes on the device that high-throughput operations of a rank need beside the region and their
 * handles, for the largest batch: a later call allocates nothing.
 */
public final class OperationMemory {
  private OperationMemory() {}

  /**
   * Counters of sending blocks: of each rank and expert, as many as a dispatch can have.
   *
   * @param multiprocessors those of the GPU
   */
  public static long blockCounts(BufferConfig config, int multiprocessors) {
    return multiprocessors * (ranks(config) + config.experts()) * Long.BYTES;
  }

  /** Sums of a combine without an output of the caller. */
  public static long sums(BufferConfig config, DType dtype) {
    return dtype.bytes((long) Limits.tokens(config) * config.hidden());
  }

  /** Sums of weights of such a combine. */
  public static long sumsOfWeights(BufferConfig config) {
    return choices(config) * Float.BYTES;
  }

  /** Rows that callers fill for a combine, where they do not write over the received rows. */
  public static long combineInput(BufferConfig config, DType dtype) {
    return ReceiveCapacity.rows(config) * dtype.bytes(config.hidden());
  }

  /** Counts of a layout: tokens of each rank, node and expert; the same on the host. */
  public static long layoutCounts(BufferConfig config, Nodes nodes) {
    return (ranks(config) + nodes.count() + config.experts()) * Integer.BYTES;
  }

  /** The table of a layout: whether a token goes to a rank. */
  public static long tokenInRank(BufferConfig config) {
    return Limits.tokens(config) * ranks(config);
  }

  private static long choices(BufferConfig config) {
    return (long) Limits.tokens(config) * config.topK();
  }

  private static long ranks(BufferConfig config) {
    return Objects.requireNonNull(config.placement(), "settled placement").ranks();
  }
}
