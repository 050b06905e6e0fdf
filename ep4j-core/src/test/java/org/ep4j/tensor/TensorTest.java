package org.ep4j.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.ServiceLoader;
import org.ep4j.engine.DeviceAccess;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;

class TensorTest {
  @Test
  void hostBytesAreCopiedInBothDirections() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor tensor = Tensor.of(arena.allocate(100, 8), DType.INT32, 2, 3);
      tensor.copyFrom(MemorySegment.ofArray(new int[] {1, 2, 3, 4, 5, 6, 7}));
      assertThat(tensor.getInt(5)).isEqualTo(6);
      MemorySegment back = arena.allocate(28, 4);
      tensor.rows(1, 2).copyTo(back);
      assertThat(back.toArray(ValueLayout.JAVA_INT)).containsExactly(4, 5, 6, 0, 0, 0, 0);
    }
  }

  @Test
  void memoryThatIsTooShortIsRefused() {
    Tensor tensor = Tensor.of(new int[6], 2, 3);
    assertThatThrownBy(() -> tensor.copyTo(MemorySegment.ofArray(new int[5])))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("target = 20 bytes")
        .hasMessageContaining("24 bytes");
    assertThatThrownBy(() -> tensor.copyFrom(MemorySegment.ofArray(new int[5])))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("source = 20 bytes");
  }

  @Test
  void shapesThatNoMemoryHoldsAreRefusedByName() {
    MemorySegment memory = MemorySegment.ofArray(new byte[8]);
    assertThatThrownBy(() -> Tensor.of(memory, DType.NVFP4, 1, 3))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.TENSOR_SHAPE.id())
        .hasMessageContaining("shape = [1, 3]");
    assertThatThrownBy(() -> Tensor.of(memory, DType.BF16, Long.MAX_VALUE, 4))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("shape = [9223372036854775807, 4]");
    assertThatThrownBy(() -> Tensor.ofDevice(4096, 0, DType.FP32, 1L << 40, 1L << 40))
        .isInstanceOf(InvalidArgumentException.class);
    assertThat(Tensor.of(memory, DType.FP32, 0, 7).byteSize()).isZero();
  }

  /** The core alone reaches no device; the message names the module that does. */
  @Test
  void anUnreachableDeviceTensorNamesTheModule() {
    // A bundle contains all modules.
    assumeTrue(
        ServiceLoader.load(DeviceAccess.class).findFirst().isEmpty(), "a module reaches devices");
    Tensor tensor = Tensor.ofDevice(4096, 3, DType.INT32, 2, 3);
    MemorySegment memory = MemorySegment.ofArray(new int[6]);
    assertThatThrownBy(() -> tensor.copyTo(memory))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessageContaining("device 3")
        .hasMessageContaining("ep4j-cuda");
    assertThatThrownBy(() -> tensor.copyFrom(memory))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessageContaining("ep4j-cuda");
  }

  @Test
  void aReshapedTensorSharesTheMemory() {
    float[] values = {1, 2, 3, 4, 5, 6};
    Tensor tensor = Tensor.of(values, 3, 2);
    Tensor flat = tensor.reshape(6);
    values[5] = 7;
    assertThat(flat.shape()).containsExactly(6);
    assertThat(flat.getFloat(5)).isEqualTo(7);
    assertThatThrownBy(() -> tensor.reshape(5))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("6 elements");
  }

  @Test
  void rowsOfHalfBytesAreCutWhereAByteBegins() {
    Tensor tensor = Tensor.of(new byte[] {0x21, 0x43, 0x65, 0x07, 0x11, 0x22}, DType.NVFP4, 4, 3);

    Tensor cut = tensor.rows(2, 4);

    assertThat(cut.shape()).containsExactly(2, 3);
    assertThat(cut.byteSize()).isEqualTo(3);
    assertThat(cut.toFloatArray()).containsExactly(tail(tensor.toFloatArray(), 6));
    assertThat(Tensor.ofDevice(4096, 0, DType.NVFP4, 4, 3).rows(2, 4).address()).isEqualTo(4099);
    for (long[] range : new long[][] {{1, 4}, {0, 1}, {1, 2}, {3, 3}}) {
      assertThatThrownBy(() -> tensor.rows(range[0], range[1]))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.TENSOR_RANGE.id())
          .hasMessageContaining("rows = " + range[0] + ".." + range[1]);
    }
  }

  private static float[] tail(float[] values, int from) {
    return Arrays.copyOfRange(values, from, values.length);
  }
}
