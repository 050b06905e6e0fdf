package org.ep4j.examples;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.Arrays;
import java.util.List;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class DecodingTest {
  private static final int HIDDEN = 128;
  private static final int MAX_TOKENS = 5;

  private final ToyModel model = new ToyModel(HIDDEN, 64, 6, 3, 7);

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void stepsComputeWhatOneMachineWould(int ranks) {
    List<List<float[]>> results =
        ThreadRanks.call(
            ranks,
            group -> {
              try (Decoding layer = new Decoding(group, model, MAX_TOKENS)) {
                layer.step(half(3, group.rank()), half(4, group.rank()));
                return layer.step(half(1, group.rank()), half(2, group.rank()));
              }
            });

    for (int rank = 0; rank < ranks; rank++) {
      for (int number = 1; number <= 2; number++) {
        // BF16 rows, expert results and sums keep 8 bits.
        assertThat(results.get(rank).get(number - 1))
            .containsExactly(DenseLayer.forward(model, half(number, rank)), within(0.02f));
      }
    }
  }

  /** Batches of different sizes; the second half of rank 1 is empty. Values that BF16 holds. */
  private float[] half(int number, int rank) {
    int tokens = rank == 1 && number == 2 ? 0 : MAX_TOKENS - rank;
    float[] x = model.tokens(10 * number + rank, Math.max(tokens, 1));
    for (int i = 0; i < x.length; i++) {
      x[i] = Math.round(x[i] * 8) / 8f;
    }
    return Arrays.copyOf(x, tokens * HIDDEN);
  }
}
