package org.ep4j.verify;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.stream.IntStream;
import org.ep4j.CombineOrder;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.Layout;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Expected results of low-latency dispatch with {@link Layout#EXPERT_MAJOR} and its combine. Every
 * check throws {@link VerificationException} at the first difference. Not thread-safe.
 *
 * <p>Masks: the oracle assumes that all participating ranks mask the same ranks.
 */
public final class LowLatencyOracle {
  private final WorldRouting world;
  private final int maxTokens;
  private final int hidden;
  private final MemorySegment received;

  /** Number of rows by global expert and source rank. */
  private final int[][] counts;

  /** Slot at the expert's rank by source rank and choice (token * K + k); -1 = none. */
  private final int[][] slots;

  /**
   * An oracle for one dispatch.
   *
   * @param maxTokens fixed maximum M of tokens per rank
   * @param hidden elements of a row H
   */
  public LowLatencyOracle(WorldRouting world, int maxTokens, int hidden) {
    this(world, maxTokens, hidden, new boolean[world.ranks()]);
  }

  /**
   * The same with masked ranks.
   *
   * @param masked ranks that all other ranks mask
   */
  public LowLatencyOracle(WorldRouting world, int maxTokens, int hidden, boolean[] masked) {
    this.world = world;
    this.maxTokens = maxTokens;
    this.hidden = hidden;
    this.received = MemorySegment.ofArray(new short[hidden]);
    ExpertPlacement placement = world.placement();
    counts = new int[placement.experts()][world.ranks()];
    slots = new int[world.ranks()][];
    int[] next = new int[placement.experts()];
    for (int e = 0; e < next.length; e++) {
      next[e] = placement.localOf(e) * world.ranks() * maxTokens;
    }
    for (int s = 0; s < slots.length; s++) {
      slots[s] = new int[world.tokens(s) * world.topK()];
      for (int i = 0; i < slots[s].length; i++) {
        int expert = world.expert(s, i / world.topK(), i % world.topK());
        boolean sent = expert >= 0 && !masked[s] && !masked[placement.rankOf(expert)];
        slots[s][i] = sent ? next[expert]++ : -1;
        if (sent) {
          counts[expert][s]++;
        }
      }
    }
  }

  /** Number of rows per local expert of {@code rank}. */
  public int[] receiveCounts(int rank) {
    int[] sums = new int[world.placement().localExperts(rank)];
    for (int l = 0; l < sums.length; l++) {
      for (int count : counts[world.placement().expertAt(rank, l)]) {
        sums[l] += count;
      }
    }
    return sums;
  }

  /**
   * Slot (local expert * R * M + row) at the rank of {@code expert} that holds a token, -1 if the
   * token was not sent there.
   */
  public int slot(int rank, int token, int expert) {
    for (int k = 0; k < world.topK(); k++) {
      if (world.expert(rank, token, k) == expert) {
        return slots[rank][token * world.topK() + k];
      }
    }
    return -1;
  }

  /**
   * Checks the rows that {@code rank} received.
   *
   * @param x the BF16 rows of the dispatch, by (rank, token)
   * @param options the format
   */
  public void checkDispatch(
      int rank, LowLatencyDispatch actual, Rows x, LowLatencyDispatchOptions options) {
    try (Check check = new Check("lowLatencyDispatch", rank)) {
      checkDispatch(check, rank, actual, x, options);
    }
  }

  private void checkDispatch(
      Check check, int rank, LowLatencyDispatch actual, Rows x, LowLatencyDispatchOptions options) {
    int local = world.placement().localExperts(rank);
    long perExpert = (long) world.ranks() * maxTokens;
    LowLatencyEncoder encoder = new LowLatencyEncoder(options, hidden);
    Tensor rows = check.tensor("x", actual.x(), encoder.dtype, local, perExpert, hidden);
    Tensor scales = encoder.scales(check, Outputs.scales(actual), local, perExpert);
    check.ints("counts", actual.counts(), receiveCounts(rank), local);
    checkRanges(check, rank, actual.handle().layoutRange());
    Tensor srcInfo =
        check.tensor("srcInfo", actual.handle().srcInfo(), DType.INT32, local, perExpert);
    Tensor weights = Outputs.weights(actual);
    if (options.deliverWeights()) {
      weights = check.tensor("rowWeights", weights, DType.FP32, local, perExpert);
    } else {
      check.requireNull("rowWeights", weights);
    }
    for (int s = 0; s < world.ranks(); s++) {
      for (int t = 0; t < world.tokens(s); t++) {
        if (!world.goesTo(s, t, rank)) {
          continue;
        }
        encoder.encode(x.row(s, t));
        for (int k = 0; k < world.topK(); k++) {
          int slot = slots[s][t * world.topK() + k];
          if (slot < 0 || world.destination(s, t, k) != rank) {
            continue;
          }
          int expert = world.expert(s, t, k);
          Check.Location place = new Check.Location(slot, s, t, expert);
          check.value("srcInfo", place, t, srcInfo.getInt(slot));
          if (weights != null) {
            check.value(
                "rowWeights (bits)",
                place,
                Float.floatToRawIntBits(world.weight(s, t, k)),
                Float.floatToRawIntBits(weights.getFloat(slot)));
          }
          encoder.check(check, rows, scales, place);
        }
      }
    }
  }

  private void checkRanges(Check check, int rank, Tensor actual) {
    int ranks = world.ranks();
    int local = world.placement().localExperts(rank);
    Tensor ranges = check.tensor("layoutRange", actual, DType.INT64, local, ranks);
    for (int l = 0; l < local; l++) {
      int expert = world.placement().expertAt(rank, l);
      long first = 0;
      for (int s = 0; s < ranks; s++) {
        long range = ranges.getLong((long) l * ranks + s);
        long count = counts[expert][s];
        Check.Location place = new Check.Location(l, s, -1, expert);
        check.range(place, first, count, range);
        first += count;
      }
    }
  }

  /**
   * Checks the sums of {@code rank}.
   *
   * @param actual BF16 [T, H]
   * @param y BF16 rows of the experts by (rank, slot)
   * @param combined ids and weights of the combine, of all ranks
   * @param options the arithmetic
   */
  public void checkCombine(
      int rank, Tensor actual, Rows y, WorldRouting combined, LowLatencyCombineOptions options) {
    try (Check check = new Check("lowLatencyCombine", rank)) {
      checkCombine(check, rank, actual, y, combined, options);
    }
  }

  private void checkCombine(
      Check check,
      int rank,
      Tensor actual,
      Rows y,
      WorldRouting combined,
      LowLatencyCombineOptions options) {
    int tokens = world.tokens(rank);
    Tensor x = check.tensor("x", actual, DType.BF16, tokens, hidden);
    float[] sum = new float[hidden];
    float[] partial = new float[hidden];
    MemorySegment expected = MemorySegment.ofArray(new short[hidden]);
    for (int t = 0; t < tokens; t++) {
      Arrays.fill(sum, 0);
      if (options.partialRounding()) {
        for (int d = 0; d < world.ranks(); d++) {
          Arrays.fill(partial, 0);
          addChoices(partial, rank, t, d, d, y, combined, options);
          Floats.round(partial, DType.BF16);
          Floats.add(sum, partial);
        }
      } else {
        addChoices(sum, rank, t, 0, world.ranks() - 1, y, combined, options);
      }
      Floats.store(sum, expected, DType.BF16);
      check.bytes("x", expected, x.segment(), 2L * hidden * t, new Check.Location(t, rank, t, -1));
    }
  }

  /** The choices of a token in the order of its sum. */
  private int[] order(int rank, int token, CombineOrder order) {
    return order == CombineOrder.EXPERT
        ? world.choicesByExpert(rank, token)
        : IntStream.range(0, world.topK()).toArray();
  }

  /** Adds the choices of a token on ranks {@code from} to {@code to}. */
  private void addChoices(
      float[] sum,
      int rank,
      int token,
      int from,
      int to,
      Rows y,
      WorldRouting combined,
      LowLatencyCombineOptions options) {
    for (int k : order(rank, token, options.order())) {
      int holder = combined.destination(rank, token, k);
      if (holder < from || holder > to) { // a masked choice has no rank
        continue;
      }
      int slot = slot(rank, token, combined.expert(rank, token, k));
      if (slot >= 0) {
        MemorySegment row = y.row(holder, slot);
        if (options.logFmt()) {
          LogFmtRow.send(row, received);
          row = received;
        }
        Floats.addWeighted(sum, row, combined.weight(rank, token, k));
      }
    }
  }
}
