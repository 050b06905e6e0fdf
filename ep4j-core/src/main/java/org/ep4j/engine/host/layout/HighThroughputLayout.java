package org.ep4j.engine.host.layout;

import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.Limits;
import org.ep4j.engine.ReceiveCapacity;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;

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

  /**
   * Address of a rank's rows in a combine.
   *
   * <p>Protocol. The owner writes both words with plain stores before it publishes {@link
   * ControlPageLayout#ENTERED}; the rows are complete by then. Peers observe ENTERED, then read the
   * words and the rows. The owner keeps the rows until all peers have published {@link
   * ControlPageLayout#FINISHED}.
   *
   * <p>An address is an offset from the start of the owner's region: inside the region for ranks of
   * different processes, anywhere for threads of one process.
   */
  public static final class CombineLayout {
    /** Long: offset of the first row. */
    public static final long ROWS = 0;

    /** Long: offset of the first weight; undefined without weights. */
    public static final long WEIGHTS = 8;

    static final long BYTES = ControlPageLayout.LINE;

    private CombineLayout() {}
  }

  /**
   * The private memory of the high-throughput operations of one rank: copies of inputs that are not
   * in native memory, sums, and small results. Only the owner accesses it. Sized for the worst
   * case; untouched pages take no memory.
   */
  public static final class ScratchLayout {
    /**
     * Bytes of a block that a worker sums in its cache and then streams: large enough to pay for
     * the native call that writes it, small enough for the cache with its inputs. A tenth faster
     * than 512 bytes, and no slower than 2048, on AMD EPYC.
     */
    public static final int BLOCK = 1024;

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

    /** {@link #BLOCK} bytes for each of {@link #BLOCKS} workers. */
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
      partials = blocks + (long) BLOCKS * BLOCK;
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

    private static long line(long offset) {
      return ControlPageLayout.align(offset, ControlPageLayout.LINE);
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
