package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.ep4j.error.ErrorCode;
import org.ep4j.tensor.DType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Execution(ExecutionMode.CONCURRENT) // waits for child processes
class KernelChoiceTest {
  private static final String VECTORS = "jdk.incubator.vector";
  private static final String FLAG = "--add-modules " + VECTORS;

  @Test
  void vectorsAreUsedWhereTheModuleIs() {
    assertThat(KernelChoice.bits(null, true, true)).isEqualTo(KernelChoice.AUTO);
    assertThat(KernelChoice.bits(null, false, true)).isEqualTo(0);
    assertThat(RowKernels.get().vectorBits()).isIn(128, 256, 512);
  }

  @ParameterizedTest
  @ValueSource(strings = {"-XX:TieredStopAtLevel=1", "-Xint"})
  void withoutAnOptimizingCompilerPlainKernelsRunAndAWarningSaysWhy(String option)
      throws Exception {
    List<String> lines =
        ForkedJvm.run(UsesKernels.class, List.of(option, "--add-modules", VECTORS), List.of());
    assertThat(lines).contains("bits 0", "sum 3");
    assertThat(lines.stream().filter(line -> line.contains("start java without"))).hasSize(1);
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 128, 256, 512})
  void aWidthCanBeForced(int bits) {
    assertThat(KernelChoice.bits(Integer.toString(bits), true, false)).isEqualTo(bits);
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "64", "1024", "-1", "auto"})
  void anyOtherWidthIsRefused(String value) {
    assertThatThrownBy(() -> KernelChoice.bits(value, true, true))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith(
            ErrorCode.BAD_VECTOR_WIDTH.message(
                "ep4j.host.vectorBits = \"" + value + "\"; it must be 0"));
  }

  @Test
  void vectorsWithoutTheModuleAreRefusedWithTheMissingFlag() {
    assertThat(KernelChoice.bits("0", false, true)).isEqualTo(0);
    assertThatThrownBy(() -> KernelChoice.bits("256", false, true))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith(ErrorCode.BAD_VECTOR_WIDTH.id())
        .hasMessageContaining("start java with " + FLAG);
  }

  @Test
  void theKernelsOfEveryWidthReportTheirWidth() {
    assertThat(KernelWidths.vectors().map(RowKernels::vectorBits)).containsExactly(128, 256, 512);
  }

  @Test
  void withoutTheModuleTheKernelsWorkAndNameTheMissingFlagOnce() throws Exception {
    List<String> lines = ForkedJvm.run(UsesKernels.class, List.of(), List.of());
    assertThat(lines).contains("bits 0", "sum 3");
    assertThat(lines.stream().filter(line -> line.contains(FLAG))).hasSize(1);
  }

  @Test
  void aWrongPropertyIsReportedByEveryUse() throws Exception {
    List<String> lines =
        ForkedJvm.run(UsesKernels.class, List.of("-Dep4j.host.vectorBits=77"), List.of());
    assertThat(lines.stream().filter(line -> line.contains("= \"77\"; it must be"))).hasSize(2);
  }

  /** A program that uses the kernels twice. */
  static final class UsesKernels {
    private UsesKernels() {}

    public static void main(String[] args) {
      for (int i = 0; i < 2; i++) {
        try {
          sum();
        } catch (IllegalArgumentException e) {
          System.out.println(e.getMessage());
        }
      }
    }

    private static void sum() {
      RowKernels kernels = RowKernels.get();
      System.out.println("bits " + kernels.vectorBits());
      try (GuardedMemory memory = new GuardedMemory()) {
        long one = memory.shorts(new short[] {0x3F80, 0x3F80}).address();
        long two = memory.shorts(new short[] {0x4000, 0x4000}).address();
        var out = memory.allocate(4);
        kernels.reduceRows(DType.BF16, new long[] {one, two}, 2, out.address(), 2);
        System.out.printf("sum %.0f%n", Bf16.toFloat(GuardedMemory.shorts(out)[1]));
      }
    }
  }
}
