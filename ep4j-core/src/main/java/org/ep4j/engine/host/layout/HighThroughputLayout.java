package org.ep4j.engine.host.layout;

import java.util.Objects;
import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.ExpertPlacement;
import org.ep4j.engine.Limits;
import org.ep4j.engine.ReceiveCapacity;

/**
 * The high-throughput part of each rank's region; the same on all ranks. Offsets count from the
 * start of the part.
 *
 * <p>Protocol of the receive arrays. In a dispatch, one rank owns slot {@code i} and alone writes
 * row {@code i} of each array. It writes after it observes {@link ControlPageLayout#ENTERED} of the
 * region's owner, which then no longer needs the rows of the dispatch before. The row is readable
 * once the writer has published {@link ControlPageLayout#FINISHED}. The region's owner writes the
 * slots that have no token.
 *
 * <p>The arrays are sized for the widest row and the worst case; untouched pages take no memory.
 */
public final class HighThroughputLayout {
  /**
   * A rank's counts in a dispatch: how many rows it sends to each rank and expert, and how many it
   * can receive.
   *
   * <p>Protocol. The owner writes the counts with plain stores before it publishes {@link
   * ControlPageLayout#ENTERED}. Every rank reads the counts of all ranks after it observes ENTERED
   * and before it publishes {@link ControlPageLayout#FINISHED}. All ranks compute the same slots
   * from the same numbers, without atomics.
   */
  public static final class CountsLayout {
    /** Long: rows that the owner's receive region can take in this dispatch. */
    public static final long LIMIT = 0;

    /** Int[ranks]: number of the owner's tokens for each rank. */
    public static final long PER_RANK = ControlPageLayout.LINE;

    /**
     * Int[experts]: number of the owner's tokens for each expert, in order of (rank, local number).
     */
    public final long perExpert;

    /** Bytes in all. */
    final long bytes;

    CountsLayout(int ranks, int experts) {
      perExpert = ControlPageLayout.align(PER_RANK + 4L * ranks, ControlPageLayout.LINE);
      bytes = ControlPageLayout.align(perExpert + 4L * experts, ControlPageLayout.BYTES);
    }
  }

  /** Rows of the receive region. */
  public final int capacity;

  /** Bytes of the widest row. */
  public final long maxRowBytes;

  /** Maximum bytes of scales per row. */
  public final int maxScaleBytes;

  public final CountsLayout countsLayout;

  /** {@link CountsLayout}. */
  public final long counts;

  /** {@link CombineLayout}. */
  public final long combineWords;

  /** Received rows. */
  public final long rows;

  /** Received scales. */
  public final long scales;

  /** Received factors, float. */
  public final long globalScales;

  /** FLAT: received local expert numbers, long [capacity, K]. */
  public final long topkIdx;

  /** Received weights, float [capacity, K] or, EXPERT_MAJOR, [capacity]. */
  public final long topkWeights;

  /** Token number at the source, int. */
  public final long sourceTokens;

  /** Source rank, int. */
  public final long sourceRanks;

  /** Rows to be combined, at most 4 bytes an element; none if combines read them in place. */
  public final long combineRows;

  /** Weights to be combined, float [capacity, K]. */
  public final long combineWeights;

  /** Bytes of the part. */
  public final long bytes;

  HighThroughputLayout(BufferConfig config) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    capacity = ReceiveCapacity.rows(config);
    maxRowBytes = Limits.rowDType(config).bytes(config.hidden());
    maxScaleBytes = Math.max(16, config.hidden() / 4);
    countsLayout = new CountsLayout(placement.ranks(), placement.experts());
    counts = 0;
    combineWords = countsLayout.bytes;
    rows = page(combineWords + CombineLayout.BYTES);
    scales = page(rows + capacity * maxRowBytes);
    globalScales = page(scales + (long) capacity * maxScaleBytes);
    topkIdx = page(globalScales + capacity * 4L);
    topkWeights = page(topkIdx + capacity * 8L * config.topK());
    sourceTokens = page(topkWeights + capacity * 4L * config.topK());
    sourceRanks = page(sourceTokens + capacity * 4L);
    combineRows = page(sourceRanks + capacity * 4L);
    long copies = Limits.combinesInPlaceOnly(config) ? 0 : capacity;
    combineWeights = page(combineRows + copies * DType.FP32.bytes(config.hidden()));
    bytes =
        config.highThroughput().isEmpty()
            ? 0
            : page(combineWeights + capacity * 4L * config.topK());
  }

  /**
   * Bytes that FLAT dispatches and combines of full batches touch if every token goes to every
   * rank: the received rows, and the rows to be combined, in the row type or BF16.
   */
  long likelyBytes(BufferConfig config, int ranks) {
    DType row = Limits.rowDType(config);
    long received = Math.min(capacity, (long) ranks * Limits.tokens(config));
    long summed =
        Limits.combinesInPlaceOnly(config)
            ? 0
            : (row.summable() ? row : DType.BF16).bytes(config.hidden());
    return bytes == 0 ? 0 : rows + received * (maxRowBytes + summed);
  }

  private static long page(long offset) {
    return ControlPageLayout.align(offset, ControlPageLayout.BYTES);
  }
}
