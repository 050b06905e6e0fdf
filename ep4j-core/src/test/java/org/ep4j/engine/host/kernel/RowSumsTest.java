package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Random;
import org.ep4j.error.ErrorCode;
import org.ep4j.tensor.DType;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Sums of rows against their definition, computed here element by element. */
@Execution(ExecutionMode.CONCURRENT) // arithmetic of one thread
class RowSumsTest {
  private static final long SEED = 20260701;
  private static final DType[] TYPES = {DType.BF16, DType.FP16, DType.FP32};

  /** Rows and their values. */
  private record Rows(DType type, long[] addresses, float[][] values) {
    static Rows random(GuardedMemory memory, Random random, DType type, int count, int elements) {
      long[] addresses = new long[count];
      float[][] values = new float[count][elements];
      boolean tame = random.nextBoolean(); // else all bit patterns
      for (int r = 0; r < count; r++) {
        MemorySegment row = memory.allocate((long) elements * bytes(type));
        addresses[r] = row.address();
        for (int i = 0; i < elements; i++) {
          values[r][i] = tame ? tame(row, type, i, random) : any(row, type, i, random.nextInt());
        }
      }
      return new Rows(type, addresses, values);
    }

    private static float tame(MemorySegment row, DType type, int i, Random random) {
      float value = random.nextInt(20) == 0 ? -0f : (float) random.nextGaussian();
      return switch (type) {
        case BF16 -> any(row, type, i, Grid.BF16.round16(value));
        case FP16 -> any(row, type, i, Grid.FP16.round16(value));
        default -> any(row, type, i, Float.floatToRawIntBits(value));
      };
    }

    private static float any(MemorySegment row, DType type, int i, int bits) {
      if (type == DType.FP32) {
        row.set(ValueLayout.JAVA_INT_UNALIGNED, 4L * i, bits);
        return Float.intBitsToFloat(bits);
      }
      row.set(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i, (short) bits);
      return type == DType.BF16
          ? Float.intBitsToFloat(bits << 16)
          : Float.float16ToFloat((short) bits);
    }
  }

  private static int bytes(DType type) {
    return type == DType.FP32 ? 4 : 2;
  }

  /** The stored bits of a result. */
  private static int rounded(DType type, float value) {
    return switch (type) {
      case BF16 -> Grid.BF16.round16(value);
      case FP16 -> Grid.FP16.round16(value);
      default -> Float.isNaN(value) ? 0x7FFFFFFF : Float.floatToRawIntBits(value);
    };
  }

  private static float widened(DType type, int bits) {
    return switch (type) {
      case BF16 -> Float.intBitsToFloat(bits << 16);
      case FP16 -> Float.float16ToFloat((short) bits);
      default -> Float.intBitsToFloat(bits);
    };
  }

  private static void assertResult(MemorySegment out, DType type, int[] expected, String what) {
    for (int i = 0; i < expected.length; i++) {
      int actual =
          type == DType.FP32
              ? out.get(ValueLayout.JAVA_INT_UNALIGNED, 4L * i)
              : out.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i);
      if (actual != expected[i]) {
        assertThat(Integer.toHexString(actual))
            .as("element %d of %d, %s", i, expected.length, what)
            .isEqualTo(Integer.toHexString(expected[i]));
      }
    }
  }

  private static int someElements(Random random, int run) {
    return run < 70 ? 2 * run : 2 * random.nextInt(600);
  }

  /** Ends of random groups, empty ones among them, of {@code count} rows. */
  private static int[] someGroups(Random random, int count) {
    int[] ends = new int[count + 2];
    int groups = 0;
    for (int end = 0; end < count; groups++) {
      end = Math.min(count, end + random.nextInt(4));
      ends[groups] = end;
      if (groups == count) { // no place for more groups: all rows that are left
        ends[groups] = count;
        end = count;
      }
    }
    return Arrays.copyOf(ends, groups);
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void rowsAreAddedInOrderAndRoundedOnce(RowKernels kernels) {
    Random random = new Random(SEED);
    for (int run = 0; run < 150; run++) {
      DType type = TYPES[run % TYPES.length];
      int count = random.nextInt(10);
      int elements = someElements(random, run / 2);
      try (GuardedMemory memory = new GuardedMemory()) {
        Rows rows = Rows.random(memory, random, type, count, elements);
        int[] expected = new int[elements];
        for (int i = 0; i < elements; i++) {
          float sum = 0;
          for (int r = 0; r < count; r++) {
            sum += rows.values[r][i];
          }
          expected[i] = rounded(type, sum);
        }
        MemorySegment out = memory.allocate((long) elements * bytes(type));
        kernels.reduceRows(type, rows.addresses, count, out.address(), elements);
        assertResult(out, type, expected, count + " rows of " + type + ", seed " + SEED);
        memory.assertMarginsUntouched();
      }
    }
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void groupsAreSummedFirstAndRoundedOnRequest(RowKernels kernels) {
    Random random = new Random(SEED + 1);
    for (int run = 0; run < 150; run++) {
      DType type = TYPES[run % TYPES.length];
      boolean partialRounding = random.nextBoolean();
      int count = random.nextInt(10);
      int[] groupEnd = someGroups(random, count);
      int elements = someElements(random, run / 2);
      try (GuardedMemory memory = new GuardedMemory()) {
        Rows rows = Rows.random(memory, random, type, count, elements);
        int[] expected = new int[elements];
        for (int i = 0; i < elements; i++) {
          float sum = 0;
          int r = 0;
          for (int end : groupEnd) {
            float part = 0;
            for (; r < end; r++) {
              part += rows.values[r][i];
            }
            sum += partialRounding ? widened(type, rounded(type, part)) : part;
          }
          expected[i] = rounded(type, sum);
        }
        MemorySegment out = memory.allocate((long) elements * bytes(type));
        kernels.reduceGroups(
            type,
            rows.addresses,
            groupEnd,
            groupEnd.length,
            partialRounding,
            out.address(),
            elements);
        assertResult(
            out,
            type,
            expected,
            "groups " + Arrays.toString(groupEnd) + " of " + type + ", seed " + (SEED + 1));
        memory.assertMarginsUntouched();
      }
    }
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void productsAreRoundedBeforeGroupsAreSummed(RowKernels kernels) {
    Random random = new Random(SEED + 3);
    for (int run = 0; run < 150; run++) {
      DType type = TYPES[run % TYPES.length];
      boolean partialRounding = random.nextBoolean();
      int count = random.nextInt(10);
      int[] groupEnd = someGroups(random, count);
      int elements = someElements(random, run / 2);
      float[] weights = someWeights(random, count);
      try (GuardedMemory memory = new GuardedMemory()) {
        Rows rows = Rows.random(memory, random, type, count, elements);
        int[] expected = new int[elements];
        for (int i = 0; i < elements; i++) {
          float sum = 0;
          int r = 0;
          for (int end : groupEnd) {
            float part = 0;
            for (; r < end; r++) {
              float product = rows.values[r][i] * weights[r];
              part += product;
            }
            sum += partialRounding ? widened(type, rounded(type, part)) : part;
          }
          expected[i] = rounded(type, sum);
        }
        MemorySegment out = memory.allocate((long) elements * bytes(type));
        kernels.reduceScaledGroups(
            type,
            rows.addresses,
            weights,
            groupEnd,
            groupEnd.length,
            partialRounding,
            out.address(),
            elements);
        assertResult(
            out,
            type,
            expected,
            "scaled groups " + Arrays.toString(groupEnd) + " of " + type + ", seed " + (SEED + 3));
        memory.assertMarginsUntouched();
      }
    }
  }

  private static float[] someWeights(Random random, int count) {
    float[] weights = new float[count];
    for (int r = 0; r < count; r++) {
      weights[r] =
          random.nextInt(8) == 0
              ? Float.intBitsToFloat(random.nextInt())
              : (float) random.nextGaussian();
    }
    return weights;
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void weightsMultiplyWithOneRounding(RowKernels kernels) {
    Random random = new Random(SEED + 2);
    for (int run = 0; run < 120; run++) {
      int count = random.nextInt(10);
      int[] groupEnd = someGroups(random, count);
      int elements = someElements(random, run);
      float[] weights = someWeights(random, count);
      try (GuardedMemory memory = new GuardedMemory()) {
        Rows rows = Rows.random(memory, random, DType.BF16, count, elements);
        int[] whole = new int[elements];
        int[] grouped = new int[elements];
        for (int i = 0; i < elements; i++) {
          float sum = 0;
          for (int r = 0; r < count; r++) {
            sum = Math.fma(rows.values[r][i], weights[r], sum);
          }
          whole[i] = rounded(DType.BF16, sum);
          sum = 0;
          int r = 0;
          for (int end : groupEnd) {
            float part = 0;
            for (; r < end; r++) {
              part = Math.fma(rows.values[r][i], weights[r], part);
            }
            sum += widened(DType.BF16, rounded(DType.BF16, part));
          }
          grouped[i] = rounded(DType.BF16, sum);
        }
        MemorySegment out = memory.allocate(2L * elements);
        kernels.weightedReduce(DType.BF16, rows.addresses, weights, count, out.address(), elements);
        assertResult(out, DType.BF16, whole, "weighted, seed " + (SEED + 2));
        kernels.weightedReduceGroups(
            rows.addresses, weights, groupEnd, groupEnd.length, out.address(), elements);
        assertResult(out, DType.BF16, grouped, "weighted groups, seed " + (SEED + 2));
        memory.assertMarginsUntouched();
      }
    }
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void rowsOfAllTypesAreMultipliedAndAddedWithOneRounding(RowKernels kernels) {
    Random random = new Random(SEED + 4);
    for (int run = 0; run < 120; run++) {
      int count = random.nextInt(10);
      int elements = someElements(random, run);
      float[] weights = someWeights(random, count);
      for (DType type : new DType[] {DType.FP16, DType.FP32}) {
        try (GuardedMemory memory = new GuardedMemory()) {
          Rows rows = Rows.random(memory, random, type, count, elements);
          int[] expected = new int[elements];
          for (int i = 0; i < elements; i++) {
            float sum = 0;
            for (int r = 0; r < count; r++) {
              sum = Math.fma(rows.values[r][i], weights[r], sum);
            }
            expected[i] = rounded(type, sum);
          }
          MemorySegment out = memory.allocate((long) elements * bytes(type));
          kernels.weightedReduce(type, rows.addresses, weights, count, out.address(), elements);
          assertResult(out, type, expected, "weighted " + type + ", seed " + (SEED + 4));
          memory.assertMarginsUntouched();
        }
      }
    }
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void everySixteenBitNumberPassesThroughASum(RowKernels kernels) {
    try (GuardedMemory memory = new GuardedMemory()) {
      short[] all = new short[1 << 16];
      for (int i = 0; i < all.length; i++) {
        all[i] = (short) i;
      }
      long[] rows = {memory.shorts(all).address()};
      MemorySegment out = memory.allocate(2L * all.length);
      for (DType type : new DType[] {DType.BF16, DType.FP16}) {
        kernels.reduceRows(type, rows, 1, out.address(), all.length);
        int infinity = type == DType.BF16 ? 0x7F80 : 0x7C00;
        int[] expected = new int[all.length];
        for (int i = 0; i < all.length; i++) {
          int magnitude = i & 0x7FFF;
          expected[i] = magnitude > infinity ? 0x7FFF : i == 0x8000 ? 0 : (short) i;
        }
        assertResult(out, type, expected, type + " one row");
      }
    }
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void rowsThatCannotBeSummedAreRefused(RowKernels kernels) {
    assertThatThrownBy(() -> kernels.reduceRows(DType.FP8_E4M3, new long[0], 0, 0, 0))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith(ErrorCode.TYPE_NOT_SUMMED.message("dtype = FP8_E4M3"));
    assertThatThrownBy(
            () -> kernels.reduceGroups(DType.INT32, new long[0], new int[0], 0, true, 0, 0))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith(ErrorCode.TYPE_NOT_SUMMED.message("dtype = INT32"));
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void copiesAndZeroesExactlyTheBytesGiven(RowKernels kernels) {
    try (GuardedMemory memory = new GuardedMemory()) {
      byte[] bytes = new byte[1000];
      new Random(SEED).nextBytes(bytes);
      MemorySegment source = memory.allocate(bytes.length);
      source.copyFrom(MemorySegment.ofArray(bytes));
      for (int n : new int[] {0, 1, 2, 63, 64, 65, 1000}) {
        MemorySegment target = memory.allocate(n);
        kernels.copy(source.address(), target.address(), n);
        assertThat(GuardedMemory.bytes(target)).isEqualTo(Arrays.copyOf(bytes, n));
        kernels.zero(target.address(), n);
        assertThat(GuardedMemory.bytes(target)).isEqualTo(new byte[n]);
      }
      memory.assertMarginsUntouched();
    }
  }
}
