package org.ep4j.verify;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.RankMajorDispatch;
import org.ep4j.config.Layout;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Expected results of low-latency dispatch with {@link Layout#RANK_MAJOR} and its combine. Every
 * check throws {@link VerificationException} at the first difference. Not thread-safe.
 *
 * <p>Masks: as for {@link LowLatencyOracle}.
 */
public final class RankMajorOracle {
  private final WorldRouting world;
  private final int maxTokens;
  private final int hidden;
  private final boolean[] masked;

  /**
   * An oracle for one dispatch.
   *
   * @param maxTokens fixed maximum M of tokens per rank
   * @param hidden elements of a row H
   */
  public RankMajorOracle(WorldRouting world, int maxTokens, int hidden) {
    this(world, maxTokens, hidden, new boolean[world.ranks()]);
  }

  /**
   * The same with masked ranks.
   *
   * @param masked ranks that all other ranks mask
   */
  public RankMajorOracle(WorldRouting world, int maxTokens, int hidden, boolean[] masked) {
    this.world = world;
    this.maxTokens = maxTokens;
    this.hidden = hidden;
    this.masked = masked.clone();
  }

  /** Whether a token of {@code source} goes to {@code rank}. */
  private boolean sent(int source, int token, int rank) {
    return !masked[source] && !masked[rank] && world.goesTo(source, token, rank);
  }

  /** Number of rows that {@code rank} gets from each source. */
  public int[] receiveCounts(int rank) {
    int[] counts = new int[world.ranks()];
    for (int s = 0; s < counts.length; s++) {
      for (int t = 0; t < world.tokens(s); t++) {
        counts[s] += sent(s, t, rank) ? 1 : 0;
      }
    }
    return counts;
  }

  /**
   * Row (source rank * M + row of the source) of a token at {@code rank}, -1 if the token has none.
   */
  public int slot(int source, int token, int rank) {
    if (!sent(source, token, rank)) {
      return -1;
    }
    int slot = source * maxTokens;
    for (int t = 0; t < token; t++) {
      slot += sent(source, t, rank) ? 1 : 0;
    }
    return slot;
  }

  /**
   * Checks the rows that {@code rank} received.
   *
   * @param x the BF16 rows of the dispatch, by (rank, token)
   * @param options the format
   */
  public void checkDispatch(
      int rank, RankMajorDispatch actual, Rows x, LowLatencyDispatchOptions options) {
    try (Check check = new Check("lowLatencyDispatch", rank)) {
      checkDispatch(check, rank, actual, x, options);
    }
  }

  private void checkDispatch(
      Check check, int rank, RankMajorDispatch actual, Rows x, LowLatencyDispatchOptions options) {
    int ranks = world.ranks();
    int topK = world.topK();
    LowLatencyEncoder encoder = new LowLatencyEncoder(options, hidden);
    Tensor rows = check.tensor("x", actual.x(), encoder.dtype, ranks, maxTokens, hidden);
    Tensor scales = encoder.scales(check, Outputs.scales(actual), ranks, maxTokens);
    Tensor ids = check.tensor("topkIdx", actual.topkIdx(), DType.INT64, ranks, maxTokens, topK);
    Tensor weights = Outputs.weights(actual);
    if (world.weighted()) {
      weights = check.tensor("topkWeights", weights, DType.FP32, ranks, maxTokens, topK);
    } else {
      check.requireNull("topkWeights", weights);
    }
    Tensor tokens =
        check.tensor("srcInfo", actual.handle().srcInfo(), DType.INT32, ranks, maxTokens);
    Tensor ranges = check.tensor("layoutRange", actual.handle().layoutRange(), DType.INT64, ranks);
    int[] counts = new int[ranks];
    for (int s = 0; s < ranks; s++) {
      for (int t = 0; t < world.tokens(s); t++) {
        if (!sent(s, t, rank)) {
          continue;
        }
        int slot = s * maxTokens + counts[s]++;
        Check.Location place = new Check.Location(slot, s, t, -1);
        check.value("srcInfo", place, t, tokens.getInt(slot));
        encoder.encode(x.row(s, t));
        encoder.check(check, rows, scales, place);
        checkChoices(check, rank, place, ids, weights);
      }
      Check.Location place = new Check.Location(s, s, -1, -1);
      long range = ranges.getLong(s);
      check.range(place, (long) s * maxTokens, counts[s], range);
    }
    check.ints("counts", actual.counts(), counts, ranks);
  }

  private void checkChoices(
      Check check, int rank, Check.Location place, Tensor ids, @Nullable Tensor weights) {
    for (int k = 0; k < world.topK(); k++) {
      long at = place.row() * world.topK() + k;
      boolean here = world.destination(place.sourceRank(), place.sourceToken(), k) == rank;
      int expert = world.expert(place.sourceRank(), place.sourceToken(), k);
      check.value("topkIdx", place, here ? world.placement().localOf(expert) : -1, ids.getLong(at));
      if (weights != null) {
        float weight = here ? world.weight(place.sourceRank(), place.sourceToken(), k) : 0;
        check.value(
            "topkWeights (bits)",
            place,
            Float.floatToRawIntBits(weight),
            Float.floatToRawIntBits(weights.getFloat(at)));
      }
    }
  }

  /**
   * Checks the sums of {@code rank}.
   *
   * @param actual BF16 [T, H]
   * @param y BF16 rows that each rank computed from its tokens, by (rank, slot)
   */
  public void checkCombine(int rank, Tensor actual, Rows y) {
    try (Check check = new Check("lowLatencyCombine", rank)) {
      int tokens = world.tokens(rank);
      Tensor x = check.tensor("x", actual, DType.BF16, tokens, hidden);
      float[] sum = new float[hidden];
      MemorySegment expected = MemorySegment.ofArray(new short[hidden]);
      for (int t = 0; t < tokens; t++) {
        Arrays.fill(sum, 0);
        for (int holder = 0; holder < world.ranks(); holder++) {
          int slot = slot(rank, t, holder);
          if (slot >= 0) {
            Floats.addWeighted(sum, y.row(holder, slot), 1);
          }
        }
        Floats.store(sum, expected, DType.BF16);
        check.bytes(
            "x", expected, x.segment(), 2L * hidden * t, new Check.Location(t, rank, t, -1));
      }
    }
  }
}
