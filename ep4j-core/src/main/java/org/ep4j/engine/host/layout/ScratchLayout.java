package org.ep4j.engine.host.layout;

import java.util.Objects;
import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.ExpertPlacement;
import org.ep4j.ScaleLayout;
import org.ep4j.engine.Limits;
import org.ep4j.engine.host.streaming.NonTemporalSum;

/**
 * The private memory of the high-throughput operations of one rank: copies of inputs that are not
 * in native memory, sums, and small results. Only the owner accesses it. Sized for the worst case;
 * untouched pages take no memory.
 */
public final class ScratchLayout {
  /** Number of workers with a block of their own. */
  public static final int BLOCKS = 1024;

  /** Copy of the rows to send. */
  public final long rows;

  public final long scales;
  public final long globalScales;
  public final long ids;
  public final long weights;
  public final long bias0;
  public final long bias1;

  /** Sums, if the caller passes no output or one that is not native. */
  public final long sums;

  /** Sums of weights, float [T, K]. */
  public final long weightSums;

  /** A block of {@link NonTemporalSum} for each of {@link #BLOCKS} workers. */
  public final long blocks;

  /** A row for each of {@link #BLOCKS} workers: a node's partial sum. */
  public final long partials;

  /** Results of a dispatch: int [L], int [L], long [L + 1], long [R + 1]. */
  public final long aligned;

  public final long received;
  public final long expertOffsets;
  public final long rankOffsets;

  /** Results of a layout: int [R], int [nodes], int [E], byte [T, R]. */
  public final long perRank;

  public final long perNode;
  public final long perExpert;
  public final long tokenInRank;

  /** Received scales by columns, for at most {@code capacity} rows. */
  public final long scaleColumns;

  public final long bytes;

  ScratchLayout(BufferConfig config, HighThroughputLayout layout) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    long tokens = Limits.tokens(config);
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
    bytes =
        config.highThroughput().isEmpty()
            ? 0
            : page(scaleColumns + columnRows * layout.maxScaleBytes);
  }

  /** Distance in bytes between two partial sums. */
  public static long partialBytes(int hidden) {
    return line(DType.FP32.bytes(hidden));
  }

  private static long page(long offset) {
    return ControlPageLayout.align(offset, ControlPageLayout.BYTES);
  }

  private static long line(long offset) {
    return ControlPageLayout.align(offset, ControlPageLayout.LINE);
  }
}
