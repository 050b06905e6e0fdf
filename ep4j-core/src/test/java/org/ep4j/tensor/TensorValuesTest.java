package org.ep4j.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Random;
import java.util.Set;
import java.util.function.Consumer;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.Event;
import org.junit.jupiter.api.Test;

/** Elements of tensors as Java numbers. */
class TensorValuesTest {
  private static final long SEED = Long.getLong("ep4j.seed", 1);

  private static final Set<DType> ROUNDED =
      EnumSet.of(DType.BF16, DType.FP16, DType.FP32, DType.FP8_E4M3, DType.NVFP4);

  private static final Set<DType> FLOATS =
      EnumSet.of(DType.BF16, DType.FP16, DType.FP32, DType.FP8_E4M3, DType.NVFP4, DType.UE8M0);

  @Test
  void floatsAreRoundedIntoATensorOfTheirOwn() {
    float[] values = {1, -2, 0.5f, 1 + 0x1p-8f, 3, 6}; // the fourth is a tie of BF16
    for (DType dtype : ROUNDED) {
      float[] source = values.clone();
      Tensor tensor = Tensor.fromFloats(source, dtype, 2, 3);
      source[0] = 77;
      assertThat(tensor.dtype()).isEqualTo(dtype);
      assertThat(tensor.shape()).containsExactly(2, 3);
      float[] expected = values.clone();
      expected[3] = dtype == DType.FP32 || dtype == DType.FP16 ? values[3] : 1;
      assertThat(tensor.toFloatArray()).as("%s", dtype).containsExactly(expected);
    }
    assertThat(Tensor.fromFloats(new float[0], DType.BF16, 0, 7).toFloatArray()).isEmpty();
  }

  @Test
  void arraysHoldTheNumbersThatGettersReturn() {
    Random random = new Random(SEED);
    byte[] bytes = new byte[48];
    random.nextBytes(bytes);
    try (Arena arena = Arena.ofConfined()) {
      for (DType dtype : DType.values()) {
        long elements = bytes.length * 8L / dtype.bits();
        Tensor heap = Tensor.of(bytes, dtype, elements / 2, 2);
        Tensor off = Tensor.allocate(arena, dtype, elements / 2, 2);
        off.copyFrom(MemorySegment.ofArray(bytes));
        for (Tensor tensor : new Tensor[] {heap, off}) {
          if (FLOATS.contains(dtype)) {
            float[] values = tensor.toFloatArray();
            assertThat(values).hasSize((int) elements);
            for (int i = 0; i < values.length; i++) {
              assertThat(Float.floatToIntBits(values[i]))
                  .as("%s, seed %d", tensor, SEED)
                  .isEqualTo(Float.floatToIntBits(tensor.getFloat(i)));
            }
          } else {
            long[] values = tensor.toLongArray();
            assertThat(values).hasSize((int) elements);
            for (int i = 0; i < values.length; i++) {
              assertThat(values[i]).as("%s, seed %d", tensor, SEED).isEqualTo(tensor.getLong(i));
            }
          }
          if (dtype == DType.INT32 || dtype == DType.UINT8) {
            int[] values = tensor.toIntArray();
            for (int i = 0; i < values.length; i++) {
              assertThat(values[i]).as("%s, seed %d", tensor, SEED).isEqualTo(tensor.getInt(i));
            }
            assertThat(tensor.toLongArray())
                .containsExactly(Arrays.stream(values).asLongStream().toArray());
          }
        }
      }
    }
  }

  @Test
  void rowsAreReadAndWrittenAsFloats() {
    Tensor rows = Tensor.fromFloats(new float[] {1, 2, 3, 4, 5, 6}, DType.BF16, 3, 2);
    float[] row = rows.rows(1, 2).toFloatArray();
    assertThat(row).containsExactly(3, 4);
    rows.rows(1, 2).copyFrom(new float[] {-row[0], 2 * row[1]});
    assertThat(rows.toFloatArray()).containsExactly(1, 2, -3, 8, 5, 6);
    assertThat(rows.getFloat(2)).isEqualTo(-3);
  }

  @Test
  void smallerTypesAreWidenedExactly() {
    assertThat(Tensor.of(new byte[] {-1, 1}, DType.UINT8, 2).toIntArray()).containsExactly(255, 1);
    assertThat(Tensor.of(new int[] {-1, 7}, 2).toLongArray()).containsExactly(-1, 7);
    assertThat(Tensor.of(new int[] {-1, 7}, 2).getLong(0)).isEqualTo(-1);
    assertThat(Tensor.of(new byte[] {-1}, DType.UINT8, 1).getLong(0)).isEqualTo(255);
    assertThat(Tensor.of(new byte[] {0, 127, -1}, DType.UE8M0, 3).toFloatArray())
        .containsExactly(0, 1, Float.POSITIVE_INFINITY);
  }

  @Test
  void aReadAsAnotherTypeIsRefusedWithTheMethodToUse() {
    for (DType dtype : DType.values()) {
      Tensor tensor = Tensor.of(new byte[16], dtype, 2);
      boolean floating = FLOATS.contains(dtype);
      boolean wide = dtype == DType.INT64;
      readOrRefused(tensor, "getInt", !floating && !wide, t -> t.getInt(0));
      readOrRefused(tensor, "toIntArray", !floating && !wide, Tensor::toIntArray);
      readOrRefused(tensor, "getLong", !floating, t -> t.getLong(0));
      readOrRefused(tensor, "toLongArray", !floating, Tensor::toLongArray);
      readOrRefused(tensor, "getFloat", floating, t -> t.getFloat(0));
      readOrRefused(tensor, "toFloatArray", floating, Tensor::toFloatArray);
    }
    assertThatThrownBy(() -> Tensor.of(new float[2], 2).getInt(0))
        .hasMessageContaining("getInt reads INT32 or UINT8, but the tensor is FP32[2]@heap")
        .hasMessageEndingWith("use getFloat or toFloatArray");
    assertThatThrownBy(() -> Tensor.of(new long[2], 2).getInt(0))
        .hasMessageEndingWith("use getLong or toLongArray");
  }

  @Test
  void anIndexOutsideTheTensorIsRefused() {
    // The memory is longer than the tensor.
    Tensor tensor = Tensor.of(new int[16], 2, 3);
    Tensor nibbles = Tensor.of(new byte[4], DType.NVFP4, 1, 2);
    for (long index : new long[] {-1, 6, Long.MAX_VALUE, Long.MIN_VALUE}) {
      assertThatThrownBy(() -> tensor.getInt(index))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.TENSOR_INDEX.id())
          .hasMessageContaining("index = " + index)
          .hasMessageContaining("below 6 for INT32[2, 3]@heap");
      assertThatThrownBy(() -> nibbles.getFloat(index))
          .isInstanceOf(InvalidArgumentException.class);
    }
    assertThatThrownBy(() -> nibbles.getFloat(2)).isInstanceOf(InvalidArgumentException.class);
  }

  @Test
  void anotherNumberOfValuesThanElementsIsRefused() {
    for (int values : new int[] {0, 5, 7}) {
      assertThatThrownBy(() -> Tensor.fromFloats(new float[values], DType.BF16, 2, 3))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.TENSOR_VALUES.id())
          .hasMessageContaining("6 values for BF16[2, 3]");
      assertThatThrownBy(() -> Tensor.of(new float[6], 2, 3).copyFrom(new float[values]))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.TENSOR_VALUES.id());
    }
  }

  @Test
  void floatsAreNotRoundedToIntegersOrScales() {
    for (DType dtype : EnumSet.complementOf(EnumSet.copyOf(ROUNDED))) {
      assertThatThrownBy(() -> Tensor.fromFloats(new float[2], dtype, 2))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.TENSOR_DTYPE.id())
          .hasMessageContaining("dtype = " + dtype);
      Tensor tensor = Tensor.of(new byte[16], dtype, 2);
      assertThatThrownBy(() -> tensor.copyFrom(new float[2]))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.TENSOR_DTYPE.id());
    }
  }

  /** The refusals come before any access to a device. */
  @Test
  void aTensorThatNoArrayHoldsIsRefused() {
    Tensor ints = Tensor.ofDevice(4096, 0, DType.INT32, 1L << 20, 1L << 11);
    Tensor floats = Tensor.ofDevice(4096, 0, DType.BF16, 1L << 31);
    for (Runnable call :
        new Runnable[] {ints::toIntArray, ints::toLongArray, floats::toFloatArray}) {
      assertThatThrownBy(call::run)
          .isInstanceOf(IllegalUseException.class)
          .hasMessageStartingWith(ErrorCode.TENSOR_TOO_LARGE.id())
          .hasMessageContaining("rows()");
    }
  }

  @Test
  void anElementOnADeviceIsRefused() {
    Tensor tensor = Tensor.ofDevice(4096, 1, DType.BF16, 2);
    assertThatThrownBy(() -> tensor.getFloat(0))
        .isInstanceOf(IllegalUseException.class)
        .hasMessageStartingWith(ErrorCode.TENSOR_ON_DEVICE.id());
  }

  @Test
  void textNamesTypeShapeAndPlace() {
    assertThat(Tensor.fromFloats(new float[6], DType.BF16, 2, 3)).hasToString("BF16[2, 3]@heap");
    assertThat(Tensor.ofDevice(4096, 1, DType.FP8_E4M3, 2)).hasToString("FP8_E4M3[2]@device1");
    try (Arena arena = Arena.ofConfined()) {
      assertThat(Tensor.allocate(arena, DType.INT32, 4)).hasToString("INT32[4]@host");
    }
    assertThat(Event.completed()).hasToString("completed");
  }

  private static void readOrRefused(
      Tensor tensor, String method, boolean allowed, Consumer<Tensor> read) {
    if (allowed) {
      read.accept(tensor);
      return;
    }
    assertThatThrownBy(() -> read.accept(tensor))
        .as("%s of %s", method, tensor)
        .isInstanceOf(IllegalUseException.class)
        .hasMessageStartingWith(ErrorCode.TENSOR_READ_TYPE.id())
        .hasMessageContaining(method + " reads ")
        .hasMessageContaining(tensor.toString());
  }
}
