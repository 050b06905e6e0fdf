package org.ep4j.cuda.soak;

import java.util.Arrays;
import java.util.SplittableRandom;

/**
 * Traffic of an epoch; all ranks draw the same.
 *
 * @param tokens tokens of each rank
 * @param firstExpert first expert of the chosen range
 * @param span size of the range, at least the number of choices
 * @param masked masked choices out of 256
 * @param empty tokens without choices out of 256
 */
record SoakTraffic(int[] tokens, int firstExpert, int span, int masked, int empty) {
  static SoakTraffic draw(SplittableRandom shared, SoakShape shape) {
    int max = shared.nextInt(4) == 0 ? shape.maxTokens() : shape.maxTokens() / 4;
    int[] tokens = new int[shape.ranks()];
    for (int r = 0; r < tokens.length; r++) {
      tokens[r] =
          switch (shared.nextInt(8)) {
            case 0 -> 0;
            case 1 -> max;
            default -> shared.nextInt(max + 1);
          };
    }
    int span = SoakShape.EXPERTS;
    int first = 0;
    switch (shared.nextInt(4)) {
      case 0 -> { // few experts receive everything
        span = SoakShape.TOP_K + shared.nextInt(3);
        first = shared.nextInt(SoakShape.EXPERTS - span + 1);
      }
      case 1 -> { // one rank receives everything
        span = shape.localExperts();
        first = shared.nextInt(shape.ranks()) * span;
      }
      default -> {}
    }
    int masked = shared.nextInt(3) == 0 ? shared.nextInt(257) : 0;
    int empty = shared.nextInt(4) == 0 ? shared.nextInt(257) : 0;
    return new SoakTraffic(tokens, first, span, masked, empty);
  }

  int tokensOfAll() {
    int sum = 0;
    for (int each : tokens) {
      sum += each;
    }
    return sum;
  }

  /** The tokens as the kernels' word. */
  long packedTokens() {
    long packed = 0;
    for (int r = 0; r < tokens.length; r++) {
      packed |= (long) tokens[r] << 16 * r;
    }
    return packed;
  }

  @Override
  public String toString() {
    return "tokens %s to experts %d..%d, %d/256 masked, %d/256 empty"
        .formatted(Arrays.toString(tokens), firstExpert, firstExpert + span - 1, masked, empty);
  }
}
