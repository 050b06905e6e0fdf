package org.ep4j.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.List;
import java.util.function.Function;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tensors over arrays, buffers and arenas. */
class TensorMemoryTest {
  private static final ByteOrder FOREIGN =
      ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN
          ? ByteOrder.BIG_ENDIAN
          : ByteOrder.LITTLE_ENDIAN;

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aTensorSharesTheMemoryOfABuffer(boolean direct) {
    ByteBuffer bytes = buffer(direct, 64);
    Tensor floats = Tensor.of(bytes, DType.FP32, 2, 3);
    bytes.putFloat(20, 7.5f);
    assertThat(floats.getFloat(5)).isEqualTo(7.5f);
    floats.copyFrom(new float[] {1, 2, 3, 4, 5, 6});
    assertThat(bytes.getFloat(20)).isEqualTo(6);
    assertThat(floats.nativeHost()).isEqualTo(direct);
    assertThat(bytes.position()).isZero();

    bytes.clear();
    assertThat(Tensor.of(bytes.asFloatBuffer(), 6).toFloatArray())
        .containsExactly(1, 2, 3, 4, 5, 6);
    bytes.asIntBuffer().put(1, -8);
    assertThat(Tensor.of(bytes.asIntBuffer(), 16).getInt(1)).isEqualTo(-8);
    bytes.asLongBuffer().put(7, Long.MIN_VALUE);
    assertThat(Tensor.of(bytes.asLongBuffer(), 8).getLong(7)).isEqualTo(Long.MIN_VALUE);
    bytes.asShortBuffer().put(31, (short) 0xC000);
    assertThat(Tensor.of(bytes.asShortBuffer(), DType.BF16, 32).getFloat(31)).isEqualTo(-2);
    assertThat(Tensor.of(bytes.asShortBuffer(), DType.FP16, 4, 8).getFloat(31)).isEqualTo(-2);
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aTensorBeginsAtThePositionAndEndsBeforeTheLimit(boolean direct) {
    ByteBuffer bytes = buffer(direct, 64);
    for (int i = 0; i < 16; i++) {
      bytes.putInt(4 * i, i);
    }
    bytes.position(8).limit(24);
    assertThat(Tensor.of(bytes, DType.INT32, 4).toIntArray()).containsExactly(2, 3, 4, 5);
    assertThat(Tensor.of(bytes.slice().order(bytes.order()), DType.INT32, 3).toIntArray())
        .containsExactly(2, 3, 4);
    IntBuffer ints = bytes.asIntBuffer().position(1);
    assertThat(Tensor.of(ints, 3).toIntArray()).containsExactly(3, 4, 5);
    assertThat(bytes.position()).isEqualTo(8);
    assertThat(ints.position()).isEqualTo(1);
    assertThatThrownBy(() -> Tensor.of(bytes, DType.INT32, 5))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.TENSOR_MEMORY.id())
        .hasMessageContaining("16 bytes");
    // A position that is no multiple of the element size.
    bytes.position(9);
    assertThat(Tensor.of(bytes, DType.INT32, 1).toIntArray()).containsExactly(3 << 24);
  }

  @Test
  void buffersOverArraysAreTheArrays() {
    float[] floats = {1, 2, 3};
    Tensor tensor = Tensor.of(FloatBuffer.wrap(floats, 1, 2), 2);
    floats[2] = 9;
    assertThat(tensor.toFloatArray()).containsExactly(2, 9);
    assertThat(Tensor.of(LongBuffer.wrap(new long[] {5, 6}), 2).toLongArray())
        .containsExactly(5, 6);
    short[] halves = FloatConversions.floatToFp16(new float[] {0.5f, -4});
    assertThat(Tensor.of(ShortBuffer.wrap(halves), DType.FP16, 2).toFloatArray())
        .containsExactly(0.5f, -4);
    assertThat(Tensor.ofFp16(halves, 2, 1).toFloatArray()).containsExactly(0.5f, -4);
    assertThat(Tensor.of(new byte[] {0x38, -8}, DType.FP8_E4M3, 2).toFloatArray())
        .containsExactly(1, -256);
  }

  @Test
  void aForeignByteOrderIsRefusedWithTheRemedy() {
    ByteBuffer foreign = ByteBuffer.allocate(64).order(FOREIGN);
    for (DType dtype : new DType[] {DType.BF16, DType.FP16, DType.FP32, DType.INT32, DType.INT64}) {
      assertThatThrownBy(() -> Tensor.of(foreign, dtype, 4))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.TENSOR_BYTE_ORDER.id())
          .hasMessageContaining("buffer = " + FOREIGN)
          .hasMessageContaining("order(ByteOrder.nativeOrder())");
    }
    List<Function<ByteBuffer, Tensor>> views =
        List.of(
            bytes -> Tensor.of(bytes.asFloatBuffer(), 2),
            bytes -> Tensor.of(bytes.asIntBuffer(), 2),
            bytes -> Tensor.of(bytes.asLongBuffer(), 2),
            bytes -> Tensor.of(bytes.asShortBuffer(), DType.BF16, 2));
    for (Function<ByteBuffer, Tensor> view : views) {
      assertThatThrownBy(() -> view.apply(foreign))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.TENSOR_BYTE_ORDER.id())
          .hasMessageContaining("on the ByteBuffer before the view");
    }
  }

  @Test
  void elementsOfAByteHaveNoByteOrder() {
    ByteBuffer bytes = ByteBuffer.wrap(new byte[] {0x21, (byte) 0xF3}).order(FOREIGN);
    assertThat(Tensor.of(bytes, DType.UINT8, 2).toIntArray()).containsExactly(0x21, 0xF3);
    assertThat(Tensor.of(bytes, DType.NVFP4, 1, 4).toFloatArray())
        .containsExactly(0.5f, 1, 1.5f, -6);
    assertThat(Tensor.of(bytes, DType.UE8M0, 1).getFloat(0)).isEqualTo(Math.scalb(1f, 0x21 - 127));
  }

  @Test
  void aShortBufferHoldsOnly16BitFloats() {
    ShortBuffer shorts = ShortBuffer.allocate(4);
    for (DType dtype : new DType[] {DType.FP32, DType.FP8_E4M3, DType.INT32}) {
      assertThatThrownBy(() -> Tensor.of(shorts, dtype, 2))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.TENSOR_DTYPE.id())
          .hasMessageContaining("dtype = " + dtype);
    }
  }

  @Test
  void aReadOnlyBufferIsReadAndNotWritten() {
    ByteBuffer bytes = buffer(false, 8).putFloat(0, 3);
    Tensor tensor = Tensor.of(bytes.asReadOnlyBuffer().order(bytes.order()), DType.FP32, 2);
    assertThat(tensor.toFloatArray()).containsExactly(3, 0);
    assertThatThrownBy(() -> tensor.copyFrom(new float[2]))
        .isInstanceOf(IllegalUseException.class)
        .hasMessageStartingWith(ErrorCode.TENSOR_READ_ONLY.id());
    assertThatThrownBy(() -> tensor.copyFrom(Tensor.of(new float[2], 2).segment()))
        .isInstanceOf(IllegalUseException.class)
        .hasMessageStartingWith(ErrorCode.TENSOR_READ_ONLY.id());
  }

  @Test
  void allocatedMemoryIsNativeAlignedAndZero() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor tensor = Tensor.allocate(arena, DType.BF16, 3, 5);
      assertThat(tensor.nativeHost()).isTrue();
      assertThat(tensor.address() % 64).isZero();
      assertThat(tensor.byteSize()).isEqualTo(30);
      assertThat(tensor.segment().toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
      Tensor empty = Tensor.allocate(arena, DType.FP32, 0, 5);
      assertThat(empty.address()).isNotZero();
      assertThat(empty.toFloatArray()).isEmpty();
      assertThatThrownBy(() -> Tensor.allocate(arena, DType.NVFP4, 3))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.TENSOR_SHAPE.id());
    }
  }

  private static ByteBuffer buffer(boolean direct, int bytes) {
    ByteBuffer buffer = direct ? ByteBuffer.allocateDirect(bytes) : ByteBuffer.allocate(bytes);
    return buffer.order(ByteOrder.nativeOrder());
  }

  @Test
  @SuppressWarnings("restricted") // memory that is never touched
  void buffersShareNativeMemoryAndCopyTheHeap() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor inMemory = Tensor.allocate(arena, DType.FP32, 2, 2);
      float[] values = {1, 2, 3, 4};
      Tensor onHeap = Tensor.of(values, 2, 2);
      FloatBuffer shared = inMemory.asReadOnlyBuffer().asFloatBuffer();
      FloatBuffer copied = onHeap.asReadOnlyBuffer().asFloatBuffer();
      inMemory.copyFrom(values);
      values[0] = 9;
      assertThat(shared).isEqualTo(FloatBuffer.wrap(new float[] {1, 2, 3, 4}));
      assertThat(copied).isEqualTo(shared);
      assertThat(shared.isDirect() && copied.isDirect()).isTrue();
      assertThat(shared.isReadOnly() && copied.isReadOnly()).isTrue();
      assertThat(Tensor.of(new float[0], 0, 2).asReadOnlyBuffer().remaining()).isZero();
    }
    MemorySegment unused = MemorySegment.ofAddress(4096).reinterpret(1L << 31);
    Tensor large = Tensor.of(unused, DType.UINT8, unused.byteSize());
    assertThatThrownBy(large::asReadOnlyBuffer).hasMessageContaining("EP4J-2003");
    Tensor onDevice = Tensor.ofDevice(4096, 0, DType.FP32, 1);
    assertThatThrownBy(onDevice::asReadOnlyBuffer).hasMessageContaining("EP4J-2001");
  }
}
