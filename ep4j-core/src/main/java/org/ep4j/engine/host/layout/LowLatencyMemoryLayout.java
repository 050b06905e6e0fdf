package org.ep4j.engine.host.layout;

import org.ep4j.config.BufferConfig;
import org.ep4j.engine.lowlatency.LowLatencyFormat;
import org.ep4j.engine.lowlatency.OutputShape;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;

/**
 * The low-latency memory of one rank that no peer accesses. Outputs of dispatch and sums of combine
 * exist twice and alternate. Outputs have the padded shape [L, R*M, ...] or, by ranks, [R, M, ...];
 * only pages with rows take memory.
 */
public final class LowLatencyMemoryLayout {
  /** Row capacity of each local expert, R*M. */
  public final long rowsPerExpert;

  /** By ranks: row capacity of each source rank, M. */
  public final long rowsPerRank;

  /** Offsets inside a half; its rows come first. */
  public final long scales;

  public final long sourceInfo;
  public final long layoutRange;
  public final long receiveCount;

  /** By ranks: choices of each row. */
  public final long choices;

  /** By ranks: weights of these choices; else the weight of each row. */
  public final long choiceWeights;

  public final long sums;

  /** Bytes of a half. */
  public final long half;

  /** Offset of the scratch rows, BF16, one per choice. */
  public final long scratch;

  public final long bytes;

  /** The memory of a rank with {@code localExperts} experts. */
  public static LowLatencyMemoryLayout of(BufferConfig config, int ranks, int localExperts) {
    return new LowLatencyMemoryLayout(OutputShape.of(config, ranks, localExperts));
  }

  public LowLatencyMemoryLayout(OutputShape shape) {
    long hidden = shape.hidden();
    int ranks = shape.ranks();
    int experts = shape.experts();
    rowsPerRank = shape.tokens();
    rowsPerExpert = ranks * rowsPerRank;
    // By ranks there is space for one row per token, also on a rank without experts.
    long rows = Math.max(1, experts) * rowsPerExpert;
    scales = pages(rows * 2 * hidden);
    long scaleRows =
        Math.max(
            experts * ScaleLayout.columnLength(DType.UE8M0, rowsPerExpert),
            ranks * ScaleLayout.columnLength(DType.UE8M0, rowsPerRank));
    sourceInfo = scales + pages(scaleRows * LowLatencyFormat.maxScaleBytes(shape.hidden()));
    layoutRange = sourceInfo + pages(rows * 4);
    receiveCount = layoutRange + pages(8L * Math.max(1, experts) * ranks);
    choices = receiveCount + pages(4L * Math.max(experts, ranks));
    choiceWeights = choices + pages(8 * rowsPerExpert * shape.topK());
    sums = choiceWeights + pages(4 * rowsPerExpert * Math.max(shape.topK(), experts));
    half = sums + pages(2 * rowsPerRank * hidden);
    scratch = 2 * half;
    bytes = scratch + 2 * hidden * shape.topK();
  }

  private static long pages(long bytes) {
    return ControlPageLayout.align(bytes, ControlPageLayout.BYTES);
  }
}
