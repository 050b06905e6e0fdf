package org.ep4j.routing;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.memory.PageArena;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

class RoutingTest {
  @Test
  void arraysAreRowsOfChoices() {
    Routing routing = Routing.of(new int[] {0, 2, 3, -1}, new float[] {.5f, .5f, 1, 0}, 2);

    assertThat(routing.tokens()).isEqualTo(2);
    assertThat(routing.topK()).isEqualTo(2);
    assertThat(routing.topkIdx().getInt(3)).isEqualTo(-1);
    assertThat(Routing.of(new long[0], new float[0], 8).tokens()).isZero();
  }

  @Test
  void incompleteRowsAreRefused() {
    assertThatThrownBy(() -> Routing.of(new int[5], new float[5], 2))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.ROUTING_SHAPE.id())
        .hasMessageContaining("topkIdx = 5 ids");
    assertThatThrownBy(() -> Routing.of(new long[4], new float[6], 2))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.ROUTING_SHAPE.id())
        .hasMessageContaining("topkWeights = 6 weights");
  }

  @Test
  void choicesOfNoExpertAtAllAreRefused() {
    assertThatThrownBy(() -> Routing.of(new int[4], new float[4], 0))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("topK = 0");
    assertThatThrownBy(() -> Routing.ofDense(Tensor.of(new byte[4], DType.UINT8, 2, 2), null, 0))
        .hasMessageContaining("topK = 0");
  }

  @Test
  void denseMapBecomesAscendingChoicesAndBack() {
    Tensor map =
        Tensor.of(new byte[] {0, 1, 0, 1, 0, 0, 0, 0, (byte) 0x80, 0, 0, 0}, DType.UINT8, 3, 4);
    Tensor probs = Tensor.of(new float[] {9, .25f, 9, .75f, 9, 9, 9, 9, 0, 9, 9, 9}, 3, 4);

    Routing longest = Routing.ofDense(map, probs);
    assertThat(longest.topK()).isEqualTo(2);
    assertThat(longest.topkIdx().toLongArray()).containsExactly(1, 3, -1, -1, 0, -1);
    assertThat(requireNonNull(longest.topkWeights()).toFloatArray())
        .containsExactly(.25f, .75f, 0, 0, 0, 0);

    Routing wider = Routing.ofDense(map, null, 3);
    assertThat(wider.topkWeights()).isNull();
    assertThat(wider.topkIdx().toLongArray()).containsExactly(1, 3, -1, -1, -1, -1, 0, -1, -1);

    float[] sparse = {0, .25f, 0, .75f, 0, 0, 0, 0, 0, 0, 0, 0};
    assertThat(longest.denseWeights(4).toFloatArray()).containsExactly(sparse);
    assertThat(longest.denseWeights(4).shape()).containsExactly(3, 4);
    assertThat(requireNonNull(wider.withDenseWeights(probs).topkWeights()).toFloatArray())
        .containsExactly(.25f, .75f, 0, 0, 0, 0, 0, 0, 0);
  }

  @Test
  void denseMapWithoutTokensOrChoicesHasOneEmptySlot() {
    Tensor none = Tensor.of(new byte[0], DType.UINT8, 0, 4);
    assertThat(Routing.ofDense(none, null).topkIdx().shape()).containsExactly(0, 1);
    Tensor idle = Tensor.of(new byte[4], DType.UINT8, 1, 4);
    assertThat(Routing.ofDense(idle, null).topkIdx().toLongArray()).containsExactly(-1);
  }

  /** The memory takes no pages: sizes are checked before a byte is read. */
  @Test
  void moreThanAnArrayHoldsIsAnArgumentError() {
    try (Arena arena = new PageArena()) {
      long tokens = 1L << 31;
      Tensor map = Tensor.of(arena.allocate(tokens, 64), DType.UINT8, tokens, 1);
      assertThatThrownBy(() -> Routing.ofDense(map, null))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.ROUTING_SHAPE.id())
          .hasMessageContaining("2147483648");
      Tensor few = map.rows(0, 1 << 30);
      assertThatThrownBy(() -> Routing.ofDense(few, null, 4))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.ROUTING_SHAPE.id());
    }
    Routing routing = Routing.of(new int[1 << 16], new float[1 << 16], 1);
    assertThatThrownBy(() -> routing.denseWeights(1 << 15))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.ROUTING_SHAPE.id());
  }

  @Test
  void denseRowWithMoreExpertsThanSlotsIsRefused() {
    Tensor map = Tensor.of(new byte[] {1, 0, 0, 1, 1, 1}, DType.UINT8, 2, 3);
    assertThatThrownBy(() -> Routing.ofDense(map, null, 2))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.DENSE_ROW_TOO_LONG.id())
        .hasMessageContaining("map[1] = 3 experts");
  }

  @Test
  void denseShapesAndIdsThatDoNotFitAreRefused() {
    Tensor map = Tensor.of(new byte[6], DType.UINT8, 2, 3);
    assertThatThrownBy(() -> Routing.ofDense(Tensor.of(new int[6], 2, 3), null))
        .hasMessageStartingWith(ErrorCode.ROUTING_SHAPE.id());
    assertThatThrownBy(() -> Routing.ofDense(map, Tensor.of(new float[6], 3, 2)))
        .hasMessageStartingWith(ErrorCode.ROUTING_SHAPE.id());
    Routing routing = Routing.of(new int[] {2}, new float[] {1}, 1);
    assertThatThrownBy(() -> routing.denseWeights(2))
        .hasMessageStartingWith(ErrorCode.NO_SUCH_EXPERT.id())
        .hasMessageContaining("topkIdx[0, 0] = 2");
    assertThatThrownBy(() -> routing.withDenseWeights(Tensor.of(new float[2], 2)))
        .hasMessageStartingWith(ErrorCode.ROUTING_SHAPE.id());
    assertThatThrownBy(() -> Routing.of(routing.topkIdx()).denseWeights(3))
        .hasMessageStartingWith(ErrorCode.WEIGHTS_MISSING.id());
  }
}
