package org.ep4j.plan;

import java.util.Arrays;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Experts that a router has chosen. Tokens lie in parts, one for each rank that was recorded; over
 * another number of ranks they are divided evenly, in their order. Immutable.
 */
public final class RecordedRouting implements PlanRouting {
  private final int[] experts;
  private final int topK;
  private final int[] firstOfPart;
  private final int greatestExpert;

  /**
   * @param experts ids, row-major [tokens, topK], -1 = none; each expert at most once for a token
   * @param topK choices of a token
   * @param parts tokens of each recorded rank
   * @throws InvalidArgumentException if there is no token, lengths differ, an id is less than -1,
   *     or a token names an expert twice
   */
  public RecordedRouting(int[] experts, int topK, int... parts) {
    this.experts = experts.clone();
    this.topK = topK;
    firstOfPart = new int[parts.length + 1];
    for (int i = 0; i < parts.length; i++) {
      firstOfPart[i + 1] = firstOfPart[i] + parts[i];
    }
    int tokens = firstOfPart[parts.length];
    if (topK < 1 || tokens < 1 || (long) tokens * topK != experts.length) {
      throw bad(
          "topk_idx",
          experts.length + " ids",
          "one or more tokens of topk ids, " + tokens + " x " + topK,
          "record some tokens");
    }
    int greatest = -1;
    for (int at = 0; at < experts.length; at++) {
      check(at);
      greatest = Math.max(greatest, experts[at]);
    }
    greatestExpert = greatest;
  }

  private void check(int at) {
    int token = at / topK;
    String field = "topk_idx[" + token + ", " + at % topK + "]";
    if (experts[at] < -1) {
      throw bad(field, String.valueOf(experts[at]), "an expert, or -1 for none", "correct it");
    }
    for (int earlier = token * topK; earlier < at && experts[at] >= 0; earlier++) {
      if (experts[earlier] == experts[at]) {
        throw bad(
            field,
            experts[at] + " a second time",
            "another expert than before in its token",
            "name each expert once");
      }
    }
  }

  private static InvalidArgumentException bad(
      String field, String value, String limit, String remedy) {
    return new InvalidArgumentException(ErrorCode.RECORDED_ROUTING, field, value, limit, remedy);
  }

  /** All nodes: the recorded choices are what gating left. */
  @Override
  public int groups() {
    return 0;
  }

  /** Choices of a token. */
  public int topK() {
    return topK;
  }

  /** Recorded tokens of all ranks. */
  public int tokens() {
    return experts.length / topK;
  }

  /** Greatest id of an expert, or -1. */
  public int greatestExpert() {
    return greatestExpert;
  }

  /** Most tokens that one of {@code ranks} ranks has. */
  public int maxTokens(int ranks) {
    int max = 0;
    for (int rank = 0; rank < ranks; rank++) {
      max = Math.max(max, first(rank + 1, ranks) - first(rank, ranks));
    }
    return max;
  }

  /** First token of a rank among {@code ranks}. */
  private int first(int rank, int ranks) {
    return ranks == firstOfPart.length - 1
        ? firstOfPart[rank]
        : (int) ((long) tokens() * rank / ranks);
  }

  /** The choices of a rank among {@code ranks}, row-major. */
  int[] ofRank(int rank, int ranks) {
    return Arrays.copyOfRange(experts, first(rank, ranks) * topK, first(rank + 1, ranks) * topK);
  }
}
