package org.ep4j.conformance.samebits;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.random.RandomGenerator;

/**
 * Tokens, the rank of each, and the tokens beside each: a function of its number and of the world.
 */
public final class TokenCase {
  final TokenSet set;

  /** By rank: its tokens in its order. */
  final List<List<Integer>> tokens = new ArrayList<>();

  /** Has no effect on sums by experts. */
  final boolean partialRounding;

  private final long number;

  /** Draws the case of this number for a world. */
  public TokenCase(long number, TokenWorld world) {
    this.number = number;
    RandomGenerator random = new SplittableRandom(number);
    set = new TokenSet(random, world.limits());
    partialRounding = random.nextBoolean();
    for (int r = 0; r < world.ranks(); r++) {
      tokens.add(new ArrayList<>());
    }
    for (int t : TokenSet.shuffled(random, set.tokens())) {
      // Without some tokens: others have other batch mates.
      if (random.nextInt(10) > 0) {
        tokens.get(random.nextInt(world.ranks())).add(t);
      }
    }
  }

  /** The seed with which a run begins with this case. */
  public long number() {
    return number;
  }

  /** The result of a token by definition of {@link org.ep4j.CombineOrder#EXPERT}. */
  public float[] result(int token) {
    return set.result(token);
  }

  @Override
  public String toString() {
    return "case %d, %d tokens, hidden %d, top-%d, %s, %d biases, weights %s, partial rounding %s, tokens by rank %s"
        .formatted(
            number,
            set.tokens(),
            set.hidden,
            set.topK,
            set.dtype,
            set.biases,
            set.applied,
            partialRounding,
            tokens);
  }
}
