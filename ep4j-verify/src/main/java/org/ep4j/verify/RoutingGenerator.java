package org.ep4j.verify;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Draws the experts and weights of {@code benchmarks/ROUTING.md}, bit for bit: the same tokens as
 * the C programs of the benchmark. Each token can be drawn independently. Not thread-safe.
 */
public final class RoutingGenerator {
  private static final int MASKED = -1;

  private final RoutingKind kind;
  private final long seed;
  private final int experts;
  private final int topK;
  private final int hot;

  /** Experts form this number of groups; all of a token are in {@code topKGroups} of them. */
  private final int groups;

  private final int topKGroups;
  private final boolean[] chosen;
  private final int[] expertAt;
  private final int[] bound;
  private final SplitMix random = new SplitMix(0);

  /**
   * @param experts number of experts E
   * @param topK distinct experts per token, at most E
   */
  public RoutingGenerator(RoutingKind kind, long seed, int experts, int topK) {
    this(kind, seed, experts, topK, 1, 1);
  }

  /**
   * A generator with grouped gating: each token first chooses groups, then experts in them.
   *
   * @param experts number of experts E, a multiple of {@code groups}
   * @param topK distinct experts per token, at most those of {@code topKGroups} groups
   * @param groups groups of consecutive experts
   * @param topKGroups groups that a token chooses
   */
  public RoutingGenerator(
      RoutingKind kind, long seed, int experts, int topK, int groups, int topKGroups) {
    if (groups < 1 || topKGroups < 1 || topKGroups > groups || experts % groups != 0) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTINGS_DO_NOT_MATCH,
          "topKGroups",
          topKGroups + " of " + groups + " groups of " + experts + " experts",
          "1 to the number of groups, which divides the number of experts",
          "choose fewer groups");
    }
    int eligible = experts / groups * topKGroups;
    if (topK < 1 || topK > eligible) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTINGS_DO_NOT_MATCH,
          "topK",
          String.valueOf(topK),
          "1.." + eligible,
          "choose among the experts that exist");
    }
    this.groups = groups;
    this.topKGroups = topKGroups;
    this.chosen = new boolean[groups];
    this.kind = kind;
    this.seed = seed;
    this.experts = experts;
    this.topK = topK;
    this.hot = Math.max(experts / 8, topK);
    this.expertAt = new int[kind == RoutingKind.ZIPF ? experts : 0];
    this.bound = new int[expertAt.length];
    int sum = 0;
    for (int i = 0; i < expertAt.length; i++) {
      expertAt[i] = i;
      sum += (1 << 24) / (i + 1);
      bound[i] = sum;
    }
    random.restart(seed);
    for (int i = expertAt.length - 1; i > 0; i--) {
      int j = random.below(i + 1);
      int swap = expertAt[i];
      expertAt[i] = expertAt[j];
      expertAt[j] = swap;
    }
  }

  /**
   * Draws one token.
   *
   * @param idx receives topK distinct experts
   * @param weights receives topK weights in (0, 1]
   */
  public void draw(int rank, int token, long[] idx, float[] weights) {
    random.restart(SplitMix.tokenState(seed, rank, token));
    chooseGroups();
    for (int k = 0; k < topK; ) {
      int expert = draw();
      if (chosen[expert / (experts / groups)] && !contains(idx, k, expert)) {
        idx[k++] = expert;
      }
    }
    for (int k = 0; k < topK; k++) {
      weights[k] = ((random.next() >>> 40) + 1) * 0x1p-24f;
    }
  }

  /** The routing of all tokens of {@code rank}: INT64 and FP32 [tokens, topK] in {@code arena}. */
  public Routing routing(int rank, int tokens, Arena arena) {
    return routing(rank, tokens, 0, arena);
  }

  /**
   * The same with masked entries: {@code maskedOf256} of 256 become -1, drawn from a separate
   * stream, so all other entries are unchanged.
   */
  public Routing routing(int rank, int tokens, int maskedOf256, Arena arena) {
    long elements = (long) tokens * topK;
    MemorySegment idx = arena.allocate(Math.max(1, elements) * Long.BYTES, 64);
    MemorySegment weights = arena.allocate(Math.max(1, elements) * Float.BYTES, 64);
    long[] tokenIdx = new long[topK];
    float[] tokenWeights = new float[topK];
    for (int t = 0; t < tokens; t++) {
      draw(rank, t, tokenIdx, tokenWeights);
      if (maskedOf256 > 0) {
        random.restart(~SplitMix.tokenState(seed, rank, t));
        for (int k = 0; k < topK; k++) {
          if (random.below(256) < maskedOf256) {
            tokenIdx[k] = MASKED;
          }
        }
      }
      long at = (long) t * topK;
      MemorySegment.copy(tokenIdx, 0, idx, ValueLayout.JAVA_LONG, at * Long.BYTES, topK);
      MemorySegment.copy(tokenWeights, 0, weights, ValueLayout.JAVA_FLOAT, at * Float.BYTES, topK);
    }
    return Routing.of(
        Tensor.of(idx, DType.INT64, tokens, topK), Tensor.of(weights, DType.FP32, tokens, topK));
  }

  /** Without a choice to make, draws nothing. */
  private void chooseGroups() {
    Arrays.fill(chosen, topKGroups == groups);
    for (int n = 0; topKGroups < groups && n < topKGroups; ) {
      int group = random.below(groups);
      if (!chosen[group]) {
        chosen[group] = true;
        n++;
      }
    }
  }

  private int draw() {
    return switch (kind) {
      case UNIFORM -> random.below(experts);
      case ZIPF -> drawZipf();
      case HOT -> random.below(random.below(4) != 3 ? hot : experts);
    };
  }

  private int drawZipf() {
    int u = random.below(bound[experts - 1]);
    int low = 0;
    int high = experts - 1;
    while (low < high) { // the first entry with bound > u
      int middle = (low + high) >>> 1;
      if (bound[middle] > u) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return expertAt[low];
  }

  private static boolean contains(long[] idx, int n, long expert) {
    for (int i = 0; i < n; i++) {
      if (idx[i] == expert) {
        return true;
      }
    }
    return false;
  }
}
