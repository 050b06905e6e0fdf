package org.ep4j.conformance.samebits;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Random;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.tensor.DType;
import org.junit.jupiter.api.Test;

/**
 * With {@link org.ep4j.CombineOrder#EXPERT} the bits of a token are a function of the token: the
 * same on any number of ranks and nodes, for any placement with replicas, beside any other tokens.
 */
class SameBitsTest {
  private static final int CASES = TestScale.of(40, 10_000);
  private static final DType[] DTYPES = {DType.BF16, DType.FP16, DType.FP32};

  @Test
  void tokensHaveTheSameBitsInAnyWorld() {
    int compared = 0;
    for (int n = 0; n < CASES; n++) {
      Random random = new Random(TestScale.seed() * 1_000_003 + n);
      boolean lowLatency = n % 3 == 0;
      DType dtype = lowLatency ? DType.BF16 : DTYPES[random.nextInt(DTYPES.length)];
      TokenSet set = new TokenSet(random, dtype, lowLatency);
      TokenWorld world = new TokenWorld(random, set, lowLatency);

      float[][] results = world.run();

      for (int t = 0; t < results.length; t++) {
        if (results[t] != null) {
          compared++;
          assertThat(results[t])
              .as("case %d, token %d of %s, seed %d", n, t, world, TestScale.seed())
              .containsExactly(set.result(t));
        }
      }
    }
    assertThat(compared).isGreaterThan(CASES);
  }
}
