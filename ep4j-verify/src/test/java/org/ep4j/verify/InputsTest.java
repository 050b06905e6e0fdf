package org.ep4j.verify;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Objects;
import java.util.Set;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class InputsTest {
  @Test
  void theGeneratorGivesThePublishedFirstOutput() {
    assertThat(new SplitMix(1).next()).isEqualTo(0x910a2dec89025cc1L);
  }

  /** The expected values of benchmarks/ROUTING.md: seed 1, 256 experts, top-8. */
  @ParameterizedTest
  @CsvSource({
    "UNIFORM, 0, 0, 133 73 243 45 94 63 38 55, 3f75928f, 3f69e987",
    "UNIFORM, 3, 4095, 216 7 243 153 169 196 140 199, 3f1098b7, 3ec89b94",
    "ZIPF, 0, 0, 43 69 106 74 54 52 121 76, 3e711448, 3f08dd8d",
    "ZIPF, 3, 4095, 223 52 106 6 93 249 41 20, 3f1098b7, 3ec89b94",
    "HOT, 0, 0, 9 45 7 6 8 255 29 67, 3f08dd8d, 3f1467db",
    "HOT, 3, 4095, 7 153 24 140 144 8 174 14, 3e854cb2, 3e55bb38",
  })
  void tokensAreThoseOfTheSpecification(
      RoutingKind kind, int rank, int token, String experts, String first, String last) {
    long[] idx = new long[8];
    float[] weights = new float[8];
    new RoutingGenerator(kind, 1, 256, 8).draw(rank, token, idx, weights);
    for (int k = 0; k < 8; k++) {
      assertThat(idx[k]).isEqualTo(Long.parseLong(experts.split(" ")[k]));
    }
    assertThat(Integer.toHexString(Float.floatToRawIntBits(weights[0]))).isEqualTo(first);
    assertThat(Integer.toHexString(Float.floatToRawIntBits(weights[7]))).isEqualTo(last);
  }

  @ParameterizedTest
  @CsvSource({
    "UNIFORM, 4c6b920c33bfd505",
    "ZIPF, 3ff1c6d02c4aa4dd",
    "HOT, 14b8aa42351617ef",
  })
  void allTokensHashToThePublishedValue(RoutingKind kind, String published) {
    RoutingGenerator generator = new RoutingGenerator(kind, 1, 256, 8);
    long hash = 0;
    try (Arena arena = Arena.ofConfined()) {
      for (int rank = 0; rank < 4; rank++) {
        Routing routing = generator.routing(rank, 4096, arena);
        Tensor weights = Objects.requireNonNull(routing.topkWeights());
        for (long i = 0; i < routing.topkIdx().elements(); i++) {
          hash = hash * 31 + routing.topkIdx().getLong(i);
          hash = hash * 31 + Float.floatToRawIntBits(weights.getFloat(i));
        }
      }
    }
    assertThat(Long.toHexString(hash)).isEqualTo(published);
  }

  @Test
  void maskingLeavesTheOtherEntriesAsTheyWere() {
    RoutingGenerator generator = new RoutingGenerator(RoutingKind.UNIFORM, 7, 32, 4);
    try (Arena arena = Arena.ofConfined()) {
      Tensor plain = generator.routing(1, 500, arena).topkIdx();
      Tensor masked = generator.routing(1, 500, 64, arena).topkIdx();
      int gone = 0;
      for (int i = 0; i < plain.elements(); i++) {
        if (masked.getLong(i) == -1) {
          gone++;
        } else {
          assertThat(masked.getLong(i)).isEqualTo(plain.getLong(i));
        }
      }
      assertThat(gone).isBetween(400, 600);
      Tensor none = generator.routing(1, 500, 256, arena).topkIdx();
      for (int i = 0; i < none.elements(); i++) {
        assertThat(none.getLong(i)).isEqualTo(-1);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(RoutingKind.class)
  void everyExpertMayBeChosenAtOnce(RoutingKind kind) {
    long[] idx = new long[5];
    new RoutingGenerator(kind, 3, 5, 5).draw(2, 9, idx, new float[5]);
    assertThat(idx).containsExactlyInAnyOrder(0, 1, 2, 3, 4);
  }

  @Test
  void moreChoicesThanExpertsAreRefused() {
    assertThatThrownBy(() -> new RoutingGenerator(RoutingKind.ZIPF, 1, 3, 4))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.ROUTINGS_DO_NOT_MATCH.message("topK = 4"));
  }

  @ParameterizedTest
  @EnumSource(RoutingKind.class)
  void groupedGatingChoosesExpertsOfSoManyGroups(RoutingKind kind) {
    RoutingGenerator grouped = new RoutingGenerator(kind, 3, 64, 6, 4, 2);
    Set<Long> all = new HashSet<>();
    for (int token = 0; token < 300; token++) {
      long[] idx = new long[6];
      grouped.draw(1, token, idx, new float[6]);
      Set<Long> groups = new HashSet<>();
      for (long expert : idx) {
        groups.add(expert / 16);
      }
      all.addAll(groups);
      assertThat(groups).hasSizeLessThanOrEqualTo(2);
      assertThat(idx).doesNotHaveDuplicates();
    }
    assertThat(all).hasSize(4);
    assertThatThrownBy(() -> new RoutingGenerator(kind, 3, 64, 6, 4, 5))
        .hasMessageContaining("5 of 4");
    assertThatThrownBy(() -> new RoutingGenerator(kind, 3, 64, 17, 4, 1))
        .hasMessageContaining("1..16");
  }

  @Test
  void allGroupsAreTheSameAsNone() {
    long[] plain = new long[6];
    long[] grouped = new long[6];
    new RoutingGenerator(RoutingKind.UNIFORM, 3, 64, 6).draw(1, 2, plain, new float[6]);
    new RoutingGenerator(RoutingKind.UNIFORM, 3, 64, 6, 4, 4).draw(1, 2, grouped, new float[6]);
    assertThat(grouped).isEqualTo(plain);
  }

  @ParameterizedTest
  @EnumSource(DType.class)
  void rowsMadeOnDemandAreThoseOfTheTensor(DType dtype) {
    Inputs inputs = new Inputs(5);
    int columns = 22;
    Rows rows = inputs.rows(Inputs.Part.PAYLOAD, dtype, columns);
    Set<String> seen = new HashSet<>();
    try (Arena arena = Arena.ofConfined()) {
      for (int rank = 0; rank < 3; rank++) {
        Tensor tensor = inputs.tensor(Inputs.Part.PAYLOAD, dtype, rank, 4, columns, arena);
        for (int row = 0; row < 4; row++) {
          var bytes = rows.row(rank, row);
          assertThat(bytes.mismatch(tensor.rows(row, row + 1).segment())).isEqualTo(-1);
          byte[] copy = bytes.toArray(ValueLayout.JAVA_BYTE);
          seen.add(HexFormat.of().formatHex(copy));
        }
      }
    }
    assertThat(seen).as("rows that differ").hasSize(12);
  }

  @Test
  void partsAndSeedsDiffer() {
    Set<Long> first = new HashSet<>();
    for (Inputs.Part part : Inputs.Part.values()) {
      for (long seed = 0; seed < 4; seed++) {
        var row = new Inputs(seed).rows(part, DType.INT64, 1).row(0, 0);
        first.add(row.get(ValueLayout.JAVA_LONG_UNALIGNED, 0));
      }
    }
    assertThat(first).hasSize(4 * Inputs.Part.values().length);
  }

  @ParameterizedTest
  @EnumSource(names = {"BF16", "FP16", "FP32"})
  void floatsAreFiniteOfBothSignsAndModest(DType dtype) {
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = new Inputs(1).tensor(Inputs.Part.EXPERT_OUTPUT, dtype, 0, 64, 128, arena);
      float least = Float.MAX_VALUE;
      float max = -Float.MAX_VALUE;
      for (int i = 0; i < x.elements(); i++) {
        float[] value = new float[1];
        Floats.add(value, x.segment().asSlice(dtype.bytes(i), dtype.bytes(1)), dtype);
        assertThat(Math.abs(value[0])).isBetween(0x1p-7f, 2f);
        least = Math.min(least, value[0]);
        max = Math.max(max, value[0]);
      }
      assertThat(least).isLessThan(-1);
      assertThat(max).isGreaterThan(1);
    }
  }
}
