package org.ep4j.moe;

import java.util.Random;
import org.ep4j.tensor.FloatConversions;

/** Tokens of BF16, and what their receivers have if they travel in FP8. */
final class Fp8Values {
  /** Elements that share a scale. */
  static final int BLOCK = 128;

  private Fp8Values() {}

  /**
   * Tokens whose first block FP8 has exactly, unlike the others, of which some are zero, tiny or
   * large: routers over the first block choose alike for them and for what is received.
   */
  static float[] tokens(int tokens, int hidden) {
    var random = new Random(2);
    var x = new float[tokens * hidden];
    for (int i = 0; i < x.length; i++) {
      int block = i % hidden / BLOCK;
      x[i] = bf16((float) random.nextGaussian());
      switch (i / hidden % 5) {
        case 1 -> x[i] *= block == 1 ? 0 : 0x1p-130f;
        case 2 -> x[i] *= block == 1 ? 0x1p-20f : 0x1p6f;
        default -> {}
      }
      if (block == 0) {
        // The largest element, 7 = 448 / 64, makes the scale 1/64. Multiples of it up to 15 are
        // exact.
        x[i] = i % BLOCK == 0 ? 7 : (random.nextInt(31) - 15) / 64f;
      }
    }
    return x;
  }

  /** What a receiver makes of tokens, by the definition of the rows. */
  static float[] received(float[] x) {
    var received = new float[x.length];
    for (int block = 0; block < x.length; block += BLOCK) {
      float largest = 1e-4f;
      for (int i = block; i < block + BLOCK; i++) {
        largest = Math.max(largest, Math.abs(bf16(x[i])));
      }
      float scale = largest * (1 / 448f);
      for (int i = block; i < block + BLOCK; i++) {
        byte sent = FloatConversions.floatToE4m3(bf16(x[i]) * (448 / largest));
        received[i] = bf16(FloatConversions.e4m3ToFloat(sent) * scale);
      }
    }
    return received;
  }

  private static float bf16(float value) {
    return FloatConversions.bf16ToFloat(FloatConversions.floatToBf16(value));
  }
}
