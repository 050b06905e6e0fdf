package org.ep4j.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.IntStream;
import org.ep4j.conformance.samebits.TokenCase;
import org.ep4j.conformance.samebits.TokenWorld;
import org.ep4j.conformance.world.TestScale;
import org.junit.jupiter.api.Test;

/**
 * With {@link org.ep4j.CombineOrder#EXPERT} the bits of a token are a function of the token: the
 * same on any number of ranks and nodes, for any placement with replicas, beside any other tokens.
 * Each result is compared with that function, so engines agree, too.
 *
 * <p>A case has a number, which says its world, too, so one seed repeats it: a run of seed n begins
 * with case n.
 */
public abstract class SameBitsKit {
  /** Case n belongs to world {@code n / NUMBERS}. */
  private static final int NUMBERS = 1000;

  /** For subclasses. */
  protected SameBitsKit() {}

  /** Name of the engine. */
  protected abstract String engine();

  /** Number of worlds. */
  protected abstract int worlds();

  /** Number of cases that run through the buffers of each world. */
  protected abstract int casesOfWorld();

  @Test
  void tokensHaveTheSameBitsInAnyWorld() {
    int compared = 0;
    for (int w = 0; w < worlds(); w++) {
      compared += compare(Math.floorDiv(TestScale.seed(), NUMBERS) + w);
    }
    assertTrue(compared > worlds() * casesOfWorld(), "tokens were compared");
  }

  /** Runs the cases of a world; returns the number of tokens that were compared. */
  private int compare(long seed) {
    TokenWorld world = new TokenWorld(seed, engine());
    List<TokenCase> cases =
        IntStream.range(0, casesOfWorld())
            .mapToLong(i -> seed * NUMBERS + Math.floorMod(TestScale.seed() + i, NUMBERS))
            .mapToObj(number -> new TokenCase(number, world))
            .toList();

    List<float[][]> results = world.run(cases);

    int compared = 0;
    for (int n = 0; n < cases.size(); n++) {
      TokenCase one = cases.get(n);
      for (int t = 0; t < results.get(n).length; t++) {
        float[] result = results.get(n)[t];
        if (result != null) {
          compared++;
          int token = t;
          assertArrayEquals(
              one.result(t),
              result,
              () ->
                  "token %d of %s of %s: -Dep4j.seed=%d begins with this case, %d with the first one of its buffers"
                      .formatted(token, one, world, one.number(), cases.getFirst().number()));
        }
      }
    }
    return compared;
  }
}
