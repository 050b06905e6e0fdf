package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** The scalar definitions against the tables of all numbers. */
class NumberFormatsTest {
  @Test
  void bf16RoundsToTheNearestWithTiesToEven() {
    int[] lows = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
    for (int high = 0; high < 1 << 16; high++) {
      for (int low : lows) {
        float value = Float.intBitsToFloat(high << 16 | low);
        if (Float.isInfinite(value)) {
          assertThat(Bf16.fromFloat(value)).isEqualTo((short) high);
        } else {
          equal(Bf16.fromFloat(value), Grid.BF16.round16(value), value);
        }
      }
      equal(
          Float.floatToIntBits(Bf16.toFloat((short) high)),
          Float.floatToIntBits(Float.intBitsToFloat(high << 16)),
          high);
    }
  }

  @Test
  void fp16RoundsToTheNearestWithTiesToEven() {
    for (int code = 0; code <= 0x7C00; code++) {
      double value = Grid.FP16.magnitudes()[code];
      double next = code < 0x7C00 ? Grid.FP16.magnitudes()[code + 1] : 2 * value;
      float middle = (float) ((value + next) / 2);
      for (float v :
          new float[] {(float) value, middle, Math.nextUp(middle), Math.nextDown(middle)}) {
        equal(Fp16.fromFloat(v), Grid.FP16.round16(v), v);
        equal(Fp16.fromFloat(-v), Grid.FP16.round16(-v), -v);
      }
    }
    assertThat(Fp16.fromFloat(Float.NaN)).isEqualTo(Fp16.NAN);
  }

  @Test
  void everyE4m3CodeHasItsValue() {
    for (int code = 0; code < 256; code++) {
      float value = Fp8.toFloat((byte) code);
      if ((code & 0x7F) == 0x7F) {
        assertThat(value).isNaN();
        assertThat(Fp8.toBf16((byte) code)).isEqualTo(Bf16.NAN);
      } else {
        double magnitude = Grid.E4M3.magnitudes()[code & 0x7F];
        assertThat((double) value).isEqualTo(code < 128 ? magnitude : -magnitude);
        assertThat(Fp8.fromFloat(value)).isEqualTo((byte) code);
      }
    }
  }

  @Test
  void e4m3RoundsEveryBf16TimesAFactorToTheNearest() {
    for (float factor : new float[] {1, 1.0625f, 448 / 3f, 4.48e6f, 0x1p-7f, 0x1p9f, 0.3f}) {
      for (int bits = 0; bits < 1 << 16; bits++) {
        float value = Bf16.toFloat((short) bits) * factor;
        int expected =
            Float.isNaN(value)
                ? 0x7F
                : Grid.E4M3.nearest(value) | Float.floatToRawIntBits(value) >>> 24 & 0x80;
        equal(Fp8.fromFloat(value), (byte) expected, value);
      }
    }
  }

  @Test
  void e4m3TiesGoToTheEvenCode() {
    for (int code = 0; code < 0x7E; code++) {
      double[] numbers = Grid.E4M3.magnitudes();
      float middle = (float) ((numbers[code] + numbers[code + 1]) / 2);
      equal(Fp8.fromFloat(middle), (byte) (code + (code & 1)), middle);
      equal(Fp8.fromFloat(Math.nextDown(middle)), (byte) code, middle);
      equal(Fp8.fromFloat(Math.nextUp(middle)), (byte) (code + 1), middle);
      equal(Fp8.fromFloat(-middle), (byte) (0x80 | code + (code & 1)), -middle);
    }
  }

  @Test
  void everyE2m1CodeHasItsValue() {
    for (int code = 0; code < 8; code++) {
      assertThat((double) NvFp4.toFloat(code)).isEqualTo(Grid.E2M1.magnitudes()[code]);
      assertThat((double) NvFp4.toFloat(code | 8)).isEqualTo(-Grid.E2M1.magnitudes()[code]);
      assertThat(NvFp4.fromFloat(NvFp4.toFloat(code | 8))).isEqualTo(code | 8);
    }
  }

  @Test
  void e2m1RoundsEveryBf16TimesAFactorToTheNearest() {
    for (float factor : new float[] {1, 1.5f, 0x1p-9f, 0.3f, 1e30f}) {
      for (int bits = 0; bits < 1 << 16; bits++) {
        float value = Bf16.toFloat((short) bits) * factor;
        int expected =
            Float.isNaN(value)
                ? 7
                : Grid.E2M1.nearest(value) | Float.floatToRawIntBits(value) >>> 28 & 8;
        equal(NvFp4.fromFloat(value), expected, value);
      }
    }
  }

  @Test
  void theGlobalScaleOfNvfp4IsFinite() {
    assertThat(NvFp4.globalScale(2688)).isEqualTo(1);
    assertThat(NvFp4.globalScale(0)).isEqualTo(1);
    assertThat(NvFp4.globalScale(Float.MIN_VALUE)).isEqualTo(Float.MAX_VALUE);
  }

  /** AssertJ costs too much for millions of values. */
  private static void equal(int actual, int expected, float value) {
    if (actual != expected) {
      assertThat(Integer.toHexString(actual))
          .as("%s", Float.toHexString(value))
          .isEqualTo(Integer.toHexString(expected));
    }
  }
}
