package org.ep4j.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Random;
import java.util.function.IntToDoubleFunction;
import java.util.function.ToIntFunction;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;

class FloatConversionsTest {
  private static final long SEED = Long.getLong("ep4j.seed", 1);

  /**
   * A format by its definition: sign, exponent and mantissa.
   *
   * @param codes positive codes of finite numbers, ascending from 0
   * @param overflow code for numbers beyond the last finite one
   * @param signBit the bit above all others
   * @param nan code of every NaN
   */
  private record Format(
      String name,
      int mantissaBits,
      int bias,
      int codes,
      int overflow,
      int signBit,
      int nan,
      ToIntFunction<Float> encode,
      IntToDoubleFunction decode) {

    double magnitude(int code) {
      int exponent = code >>> mantissaBits;
      int mantissa = code & (1 << mantissaBits) - 1;
      double significand = exponent == 0 ? mantissa : mantissa + (1 << mantissaBits);
      return Math.scalb(significand, Math.max(exponent, 1) - bias - mantissaBits);
    }

    int encoded(float value) {
      return encode.applyAsInt(value) & (signBit << 1) - 1;
    }
  }

  private static final Format BF16 =
      new Format(
          "BF16",
          7,
          127,
          0x7F80,
          0x7F80,
          0x8000,
          0x7FFF,
          FloatConversions::floatToBf16,
          code -> FloatConversions.bf16ToFloat((short) code));

  private static final Format FP16 =
      new Format(
          "FP16",
          10,
          15,
          0x7C00,
          0x7C00,
          0x8000,
          0x7FFF,
          FloatConversions::floatToFp16,
          code -> FloatConversions.fp16ToFloat((short) code));

  private static final Format E4M3 =
      new Format(
          "E4M3",
          3,
          7,
          0x7F,
          0x7E,
          0x80,
          0x7F,
          FloatConversions::floatToE4m3,
          code -> FloatConversions.e4m3ToFloat((byte) code));

  private static final Format E2M1 =
      new Format(
          "E2M1", 1, 1, 8, 7, 8, 7, FloatConversions::floatToE2m1, FloatConversions::e2m1ToFloat);

  private static final Format[] FORMATS = {BF16, FP16, E4M3, E2M1};

  @Test
  void everyFinitePatternHasItsValueAndReturns() {
    for (Format format : FORMATS) {
      for (int code = 0; code < format.codes; code++) {
        double magnitude = format.magnitude(code);
        for (int sign = 0; sign < 2; sign++) {
          int pattern = code | sign * format.signBit;
          float value = (float) format.decode.applyAsDouble(pattern);
          float expected = (float) (sign == 0 ? magnitude : -magnitude);
          equal(format, Float.floatToRawIntBits(value), Float.floatToRawIntBits(expected), pattern);
          equal(format, format.encoded(value), pattern, value);
        }
      }
    }
  }

  @Test
  void infinitiesReturnAndEveryNanBecomesThePositiveOne() {
    for (Format format : new Format[] {BF16, FP16}) {
      for (int code = format.codes; code <= format.nan; code++) {
        for (int pattern : new int[] {code, code | format.signBit}) {
          double value = format.decode.applyAsDouble(pattern);
          if (code == format.overflow) {
            assertThat(value).isInfinite();
            equal(format, format.encoded((float) value), pattern, pattern);
          } else {
            assertThat(value).isNaN();
            equal(format, format.encoded((float) value), format.nan, pattern);
          }
        }
      }
    }
    assertThat(FloatConversions.e4m3ToFloat((byte) 0x7F)).isNaN();
    assertThat(FloatConversions.e4m3ToFloat((byte) 0xFF)).isNaN();
    for (Format format : FORMATS) {
      for (int bits : new int[] {0x7F800001, 0x7FC00000, 0xFFC00000, 0x7FFFFFFF, -1}) {
        equal(format, format.encoded(Float.intBitsToFloat(bits)), format.nan, bits);
      }
    }
  }

  @Test
  void tiesGoToTheEvenPatternAndNeighboursOfATieToTheNearest() {
    for (Format format : FORMATS) {
      // Infinity is where the next number would be.
      int last = format.overflow == format.codes ? format.codes : format.codes - 1;
      for (int code = 0; code < last; code++) {
        float middle = (float) ((format.magnitude(code) + format.magnitude(code + 1)) / 2);
        equal(format, format.encoded(middle), code + (code & 1), middle);
        equal(format, format.encoded(Math.nextDown(middle)), code, middle);
        equal(format, format.encoded(Math.nextUp(middle)), code + 1, middle);
        equal(format, format.encoded(-middle), format.signBit | code + (code & 1), -middle);
      }
    }
  }

  @Test
  void randomNumbersBecomeTheNearestPattern() {
    Random random = new Random(SEED);
    for (Format format : FORMATS) {
      double max = format.magnitude(format.codes - 1);
      for (int i = 0; i < 200_000; i++) {
        // Exponents of the whole range of the format, and somewhat smaller.
        int exponent = random.nextInt(Math.getExponent(max) + format.bias + 16) - format.bias - 15;
        float value = (float) Math.scalb(random.nextDouble(1, 2), exponent);
        int code = format.encoded(value);
        if (value <= max) {
          double error = Math.abs(format.magnitude(code) - value);
          double below = Math.abs(format.magnitude(Math.max(code - 1, 0)) - value);
          double above = Math.abs(format.magnitude(code + 1) - value);
          if (error > below || error > above) {
            assertThat(code).as("%s of %s, seed %d", format.name, value, SEED).isEqualTo(-1);
          }
        }
        equal(format, format.encoded(-value), code | format.signBit, -value);
      }
    }
  }

  @Test
  void numbersBeyondTheLastFiniteOneSaturateOrBecomeInfinite() {
    for (Format format : FORMATS) {
      double max = format.magnitude(format.codes - 1);
      float next = (float) (2 * max - format.magnitude(format.codes - 2));
      for (float value : new float[] {next, Float.MAX_VALUE, Float.POSITIVE_INFINITY}) {
        equal(format, format.encoded(value), format.overflow, value);
        equal(format, format.encoded(-value), format.overflow | format.signBit, -value);
      }
    }
    assertThat(FloatConversions.e4m3ToFloat(FloatConversions.floatToE4m3(1e9f))).isEqualTo(448);
    assertThat(FloatConversions.e2m1ToFloat(FloatConversions.floatToE2m1(-1e9f))).isEqualTo(-6);
  }

  @Test
  void zerosKeepTheirSign() {
    for (Format format : FORMATS) {
      equal(format, format.encoded(0f), 0, 0);
      equal(format, format.encoded(-0f), format.signBit, 0);
      equal(format, format.encoded(-Float.MIN_VALUE), format.signBit, 0);
    }
  }

  @Test
  void ue8m0IsTheExponentOfAFloat() {
    for (int code = 1; code < 255; code++) {
      assertThat(FloatConversions.ue8m0ToFloat((byte) code)).isEqualTo(Math.scalb(1f, code - 127));
    }
    assertThat(FloatConversions.ue8m0ToFloat((byte) 0)).isZero();
    assertThat(FloatConversions.ue8m0ToFloat((byte) 255)).isEqualTo(Float.POSITIVE_INFINITY);
  }

  @Test
  void arraysAreConvertedElementByElement() {
    short[] shorts = new short[1 << 16];
    byte[] bytes = new byte[256];
    for (int i = 0; i < shorts.length; i++) {
      shorts[i] = (short) i;
      bytes[i & 0xFF] = (byte) i;
    }
    float[] bf16 = FloatConversions.bf16ToFloat(shorts);
    float[] fp16 = FloatConversions.fp16ToFloat(shorts);
    short[] bf16Back = FloatConversions.floatToBf16(bf16);
    short[] fp16Back = FloatConversions.floatToFp16(fp16);
    for (int i = 0; i < shorts.length; i++) {
      equal(BF16, bits(bf16[i]), bits(FloatConversions.bf16ToFloat(shorts[i])), i);
      equal(FP16, bits(fp16[i]), bits(FloatConversions.fp16ToFloat(shorts[i])), i);
      equal(BF16, bf16Back[i], FloatConversions.floatToBf16(bf16[i]), i);
      equal(FP16, fp16Back[i], FloatConversions.floatToFp16(fp16[i]), i);
    }
    float[] e4m3 = FloatConversions.e4m3ToFloat(bytes);
    byte[] e4m3Back = FloatConversions.floatToE4m3(e4m3);
    float[] ue8m0 = FloatConversions.ue8m0ToFloat(bytes);
    for (int i = 0; i < bytes.length; i++) {
      equal(E4M3, bits(e4m3[i]), bits(FloatConversions.e4m3ToFloat(bytes[i])), i);
      equal(E4M3, e4m3Back[i], FloatConversions.floatToE4m3(e4m3[i]), i);
      assertThat(ue8m0[i]).isEqualTo(FloatConversions.ue8m0ToFloat(bytes[i]));
    }
  }

  /** Also around the number of elements that pass through an array at a time. */
  @Test
  void memoryNeedsNoAlignment() {
    for (int count : new int[] {64, 4096, 4098, 8192, 16386}) {
      convertedInMemory(count);
    }
  }

  private static void convertedInMemory(int count) {
    Random random = new Random(SEED);
    float[] values = new float[count];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) random.nextGaussian(0, 3);
    }
    try (Arena arena = Arena.ofConfined()) {
      for (DType dtype :
          new DType[] {DType.BF16, DType.FP16, DType.FP32, DType.FP8_E4M3, DType.NVFP4}) {
        MemorySegment memory = arena.allocate(4L * count + 16, 16).asSlice(1);
        FloatConversions.fromFloats(values, dtype, memory);
        float[] back = new float[values.length];
        FloatConversions.toFloats(memory, dtype, back);
        for (int i = 0; i < values.length; i++) {
          float expected =
              switch (dtype) {
                case BF16 -> FloatConversions.bf16ToFloat(FloatConversions.floatToBf16(values[i]));
                case FP16 -> FloatConversions.fp16ToFloat(FloatConversions.floatToFp16(values[i]));
                case FP8_E4M3 ->
                    FloatConversions.e4m3ToFloat(FloatConversions.floatToE4m3(values[i]));
                case NVFP4 -> FloatConversions.e2m1ToFloat(FloatConversions.floatToE2m1(values[i]));
                default -> values[i];
              };
          assertThat(back[i]).as("%s, element %d", dtype, i).isEqualTo(expected);
        }
        long bytes = dtype.bytes(values.length);
        assertThat(memory.get(ValueLayout.JAVA_BYTE, bytes)).as("behind the last").isZero();
      }
    }
  }

  @Test
  void theEvenElementOfNvfp4LiesInTheLowNibble() {
    byte[] pair = new byte[1];
    FloatConversions.fromFloats(new float[] {0.5f, -6}, DType.NVFP4, MemorySegment.ofArray(pair));
    assertThat(pair).containsExactly(0xF1);
  }

  @Test
  void typesWithoutConversionAndShortMemoryAreRefused() {
    MemorySegment memory = MemorySegment.ofArray(new byte[7]);
    for (DType dtype : new DType[] {DType.INT32, DType.INT64, DType.UINT8}) {
      refused(() -> FloatConversions.toFloats(memory, dtype, new float[1]), ErrorCode.TENSOR_DTYPE);
    }
    refused(
        () -> FloatConversions.fromFloats(new float[1], DType.UE8M0, memory),
        ErrorCode.TENSOR_DTYPE);
    refused(
        () -> FloatConversions.toFloats(memory, DType.FP32, new float[2]), ErrorCode.TENSOR_MEMORY);
    refused(
        () -> FloatConversions.fromFloats(new float[4], DType.BF16, memory),
        ErrorCode.TENSOR_MEMORY);
    refused(
        () -> FloatConversions.toFloats(memory, DType.NVFP4, new float[3]), ErrorCode.TENSOR_SHAPE);
  }

  private static void refused(Runnable call, ErrorCode code) {
    assertThatThrownBy(call::run)
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(code.id());
  }

  private static int bits(float value) {
    return Float.floatToRawIntBits(value);
  }

  /** AssertJ costs too much for millions of values. */
  private static void equal(Format format, int actual, int expected, float input) {
    if (actual != expected) {
      assertThat(Integer.toHexString(actual))
          .as("%s of %s, seed %d", format.name, Float.toHexString(input), SEED)
          .isEqualTo(Integer.toHexString(expected));
    }
  }
}
