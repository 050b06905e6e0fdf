package org.ep4j.engine.host;

import java.util.Objects;
import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.ExpertPlacement;
import org.ep4j.ScaleLayout;

/**
 * The private memory of the high-throughput operations of one rank: copies of inputs that are not
 * in native memory, sums, and small results. Only the owner accesses it. Sized for the worst case;
 * untouched pages take no memory.
 */
final class ScratchLayout {
  /** Number of workers with a block of their own. */
  static final int BLOCKS = 1024;

  /** Copy of the rows to send. */
  final long rows;

  final long scales;
  final long globalScales;
  final long ids;
  final long weights;
  final long bias0;
  final long bias1;

  /** Sums, if the caller passes no output or one that is not native. */
  final long sums;

  /** Sums of weights, float [T, K]. */
  final long weightSums;

  /** A block of {@link NonTemporalSum} for each of {@link #BLOCKS} workers. */
  final long blocks;

  /** A row for each of {@link #BLOCKS} workers: a node's partial sum. */
  final long partials;

  /** Results of a dispatch: int [L], int [L], long [L + 1], long [R + 1]. */
  final long aligned;

  final long received;
  final long expertOffsets;
  final long rankOffsets;

  /** Results of a layout: int [R], int [nodes], int [E], byte [T, R]. */
  final long perRank;

  final long perNode;
  final long perExpert;
  final long tokenInRank;

  /** Received scales by columns, for at most {@code capacity} rows. */
  final long scaleColumns;

  final long bytes;

  ScratchLayout(BufferConfig config, HighThroughputLayout layout) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    long tokens = config.maxTokens();
    long choices = tokens * config.topK();
    long sumBytes = tokens * DType.FP32.bytes(config.hidden());
    int local = placement.maxLocalExperts();
    int ranks = placement.ranks();
    rows = 0;
    scales = page(rows + tokens * layout.maxRowBytes);
    globalScales = page(scales + tokens * layout.maxScaleBytes);
    ids = page(globalScales + tokens * 4);
    weights = page(ids + choices * 8);
    bias0 = page(weights + choices * 4);
    bias1 = page(bias0 + sumBytes);
    sums = page(bias1 + sumBytes);
    weightSums = page(sums + sumBytes);
    blocks = page(weightSums + choices * 4);
    partials = blocks + BLOCKS * NonTemporalSum.BLOCK;
    aligned = page(partials + BLOCKS * partialBytes(config.hidden()));
    received = line(aligned + 4L * local);
    expertOffsets = line(received + 4L * local);
    rankOffsets = line(expertOffsets + 8L * (local + 1));
    perRank = line(rankOffsets + 8L * (ranks + 1));
    perNode = line(perRank + 4L * ranks);
    perExpert = line(perNode + 4L * ranks);
    tokenInRank = page(perExpert + 4L * placement.experts());
    scaleColumns = page(tokenInRank + tokens * ranks);
    long columnRows = ScaleLayout.columnLength(DType.UE8M0, layout.capacity);
    bytes = config.maxTokens() == 0 ? 0 : page(scaleColumns + columnRows * layout.maxScaleBytes);
  }

  /** Distance in bytes between two partial sums. */
  static long partialBytes(int hidden) {
    return line(DType.FP32.bytes(hidden));
  }

  private static long page(long offset) {
    return ControlPageLayout.align(offset, ControlPageLayout.BYTES);
  }

  private static long line(long offset) {
    return ControlPageLayout.align(offset, ControlPageLayout.LINE);
  }
}
