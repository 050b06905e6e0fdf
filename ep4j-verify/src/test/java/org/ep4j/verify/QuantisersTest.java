package org.ep4j.verify;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.tensor.ScaleKind;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class QuantisersTest {
  @ParameterizedTest
  @CsvSource({
    "0, 00",
    "-0.0, 80",
    "448, 7e",
    "1e30, 7e",
    "-Infinity, fe",
    "NaN, 7f",
    "1, 38",
    "-1.125, b9",
    "0.001953125, 01", // 2^-9, the least subnormal
    "0.0009765625, 00", // half of it: a tie, to even
    "0.0009765626, 01",
    "0.0029296875, 02", // 1.5 of it: a tie, to even
    "0.015625, 08", // the least normal number
    "0.0146484375, 08", // a tie between the greatest subnormal and it
    "432, 7e", // a tie between 416 and 448
    "431.9, 7d",
    "1.0625, 38", // a tie between 1 and 1.125
    "1.1875, 3a",
  })
  void e4m3RoundsToTheNearestAndTiesToEven(float value, String code) {
    assertThat("%02x".formatted(Quantisers.toE4M3(value))).isEqualTo(code);
  }

  @ParameterizedTest
  @CsvSource({
    "0, 0",
    "-0.0, 8",
    "0.25, 0",
    "0.2501, 1",
    "0.75, 2",
    "1.25, 2",
    "1.75, 4",
    "2.5, 4",
    "2.51, 5",
    "3.5, 6",
    "5, 6",
    "5.01, 7",
    "99, 7",
    "-6, 15",
    "NaN, 7",
  })
  void e2m1RoundsToTheNearestAndTiesToEven(float value, int code) {
    assertThat(Quantisers.toE2M1(value)).isEqualTo(code);
  }

  @Test
  void aBlockOfSmallValuesIsScaledAsIfItHeldATenThousandth() {
    MemorySegment scales = MemorySegment.ofArray(new float[1]);
    MemorySegment values = MemorySegment.ofArray(new byte[128]);
    Quantisers.toFp8(MemorySegment.ofArray(new short[128]), ScaleKind.FLOAT32, values, scales);
    assertThat(scales.get(ValueLayout.JAVA_FLOAT_UNALIGNED, 0)).isEqualTo(1e-4f * (1f / 448f));
    assertThat(values.toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
  }

  @ParameterizedTest
  @CsvSource({
    // amax, scale rounded up to a power of two: 7 * 2^n divides 448 exactly
    "448, 1",
    "450, 2",
    "446, 1",
    "224, 0.5",
    "226, 1",
    "7, 0.015625",
    "7.0625, 0.03125",
    "0.01, 0.000030517578125",
  })
  void powerOfTwoScalesAreRoundedUp(float amax, float scale) {
    short[] row = new short[128];
    row[77] = (short) -(0x8000 - Floats.toBf16(amax));
    MemorySegment values = MemorySegment.ofArray(new byte[128]);
    MemorySegment scales = MemorySegment.ofArray(new float[1]);
    MemorySegment segment = MemorySegment.ofArray(row);
    Quantisers.toFp8(segment, ScaleKind.FLOAT32_POW2, values, scales);
    assertThat(scales.get(ValueLayout.JAVA_FLOAT_UNALIGNED, 0)).isEqualTo(scale);
    byte value = values.get(ValueLayout.JAVA_BYTE, 77);
    assertThat(value).isEqualTo(Quantisers.toE4M3(Floats.bf16(segment, 77) / scale));
    MemorySegment exponents = MemorySegment.ofArray(new byte[1]);
    Quantisers.toFp8(segment, ScaleKind.UE8M0, values, exponents);
    assertThat(exponents.get(ValueLayout.JAVA_BYTE, 0))
        .isEqualTo((byte) (127 + Math.getExponent(scale)));
    assertThat(values.get(ValueLayout.JAVA_BYTE, 77)).isEqualTo(value);
  }

  @Test
  void nvFp4PutsTheEvenElementInTheLowNibble() {
    short[] row = new short[16];
    row[0] = Floats.toBf16(6);
    row[1] = Floats.toBf16(-3);
    row[15] = Floats.toBf16(0.5f);
    MemorySegment values = MemorySegment.ofArray(new byte[8]);
    MemorySegment scales = MemorySegment.ofArray(new byte[1]);
    Quantisers.toNvFp4(MemorySegment.ofArray(row), 1, values, scales);
    assertThat(scales.get(ValueLayout.JAVA_BYTE, 0)).isEqualTo((byte) 0x38);
    assertThat(values.get(ValueLayout.JAVA_BYTE, 0)).isEqualTo((byte) 0xD7);
    assertThat(values.get(ValueLayout.JAVA_BYTE, 7)).isEqualTo((byte) 0x10);
    Quantisers.toNvFp4(MemorySegment.ofArray(row), 448, values, scales);
    assertThat(scales.get(ValueLayout.JAVA_BYTE, 0)).isEqualTo((byte) 0x7E);
    assertThat(values.get(ValueLayout.JAVA_BYTE, 0)).isEqualTo((byte) 0xD7);
  }
}
