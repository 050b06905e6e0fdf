package org.ep4j.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.ep4j.conformance.samebits.TokenSet;
import org.ep4j.conformance.samebits.TokenWorld;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.tensor.DType;
import org.junit.jupiter.api.Test;

/**
 * With {@link org.ep4j.CombineOrder#EXPERT} the bits of a token are a function of the token: the
 * same on any number of ranks and nodes, for any placement with replicas, beside any other tokens.
 * Each result is compared with that function, so engines agree, too.
 */
public abstract class SameBitsKit {
  private static final DType[] DTYPES = {DType.BF16, DType.FP16, DType.FP32};

  /** For subclasses. */
  protected SameBitsKit() {}

  /** Name of the engine. */
  protected abstract String engine();

  /** Number of worlds. */
  protected abstract int cases();

  @Test
  void tokensHaveTheSameBitsInAnyWorld() {
    int compared = 0;
    for (int n = 0; n < cases(); n++) {
      Random random = new Random(TestScale.seed() * 1_000_003 + n);
      boolean lowLatency = n % 3 == 0;
      DType dtype = lowLatency ? DType.BF16 : DTYPES[random.nextInt(DTYPES.length)];
      TokenSet set = new TokenSet(random, dtype, lowLatency);
      TokenWorld world = new TokenWorld(random, engine(), set, lowLatency);

      float[][] results = world.run();

      for (int t = 0; t < results.length; t++) {
        if (results[t] != null) {
          compared++;
          assertArrayEquals(
              set.result(t),
              results[t],
              "case %d, token %d of %s, seed %d".formatted(n, t, world, TestScale.seed()));
        }
      }
    }
    assertTrue(compared > cases(), "tokens were compared");
  }
}
