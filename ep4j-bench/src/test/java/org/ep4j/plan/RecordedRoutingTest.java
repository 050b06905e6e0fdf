package org.ep4j.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;

class RecordedRoutingTest {
  /** Five tokens of rank 0 and rank 1: three and two. */
  private static final RecordedRouting TWO_RANKS =
      new RecordedRouting(new int[] {0, 1, 2, 3, 4, 5, 6, 7, 0, -1}, 2, 3, 2);

  @Test
  void recordedRanksKeepTheirTokens() {
    assertThat(TWO_RANKS.ofRank(0, 2)).containsExactly(0, 1, 2, 3, 4, 5);
    assertThat(TWO_RANKS.ofRank(1, 2)).containsExactly(6, 7, 0, -1);
    assertThat(TWO_RANKS.maxTokens(2)).isEqualTo(3);
    assertThat(TWO_RANKS.tokens()).isEqualTo(5);
    assertThat(TWO_RANKS.greatestExpert()).isEqualTo(7);
  }

  @Test
  void otherNumbersOfRanksDivideTheTokens() {
    assertThat(TWO_RANKS.ofRank(0, 1)).hasSize(10);
    assertThat(TWO_RANKS.ofRank(0, 3)).containsExactly(0, 1);
    assertThat(TWO_RANKS.ofRank(1, 3)).containsExactly(2, 3, 4, 5);
    assertThat(TWO_RANKS.ofRank(2, 3)).containsExactly(6, 7, 0, -1);
    assertThat(TWO_RANKS.maxTokens(3)).isEqualTo(2);
    assertThat(TWO_RANKS.ofRank(0, 8)).isEmpty();
    assertThat(TWO_RANKS.maxTokens(8)).isEqualTo(1);
  }

  @Test
  void tokensThatNoRouterMakesAreRefused() {
    refused(() -> new RecordedRouting(new int[0], 2, 0), "topk_idx = 0 ids");
    refused(() -> new RecordedRouting(new int[3], 2, 2), "topk_idx = 3 ids", "2 x 2");
    refused(() -> new RecordedRouting(new int[2], 0, 2), "topk_idx = 2 ids");
    refused(() -> new RecordedRouting(new int[] {0, 1, 1, -2}, 2, 2), "topk_idx[1, 1] = -2");
    refused(() -> new RecordedRouting(new int[] {0, 1, 3, 3}, 2, 2), "topk_idx[1, 1] = 3", "once");
    assertThat(new RecordedRouting(new int[] {-1, -1}, 2, 1).greatestExpert()).isEqualTo(-1);
  }

  private static void refused(ThrowingCallable call, String... texts) {
    assertThatThrownBy(call)
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.RECORDED_ROUTING.id())
        .hasMessageContainingAll(texts);
  }
}
