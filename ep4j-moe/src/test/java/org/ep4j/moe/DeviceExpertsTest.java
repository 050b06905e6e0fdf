package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.ep4j.moe.gpu.CapturedWork;
import org.ep4j.moe.gpu.Fp8Weights;
import org.ep4j.moe.gpu.LayerDevice;
import org.ep4j.moe.gpu.WorkQueue;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Memory of the matrices of experts. */
class DeviceExpertsTest {
  private static final int EXPERTS = 3;

  /** A device that counts bytes. */
  private static final class Memory implements LayerDevice {
    private long allocated;
    private long written;
    private float[] last = new float[0];

    @Override
    public int ordinal() {
      return 0;
    }

    @Override
    public long allocate(long bytes) {
      allocated += bytes;
      return allocated;
    }

    @Override
    public void write(long address, MemorySegment source) {
      written += source.byteSize();
      last =
          source.byteSize() % Float.BYTES == 0
              ? source.toArray(ValueLayout.JAVA_FLOAT_UNALIGNED)
              : new float[0];
    }

    @Override
    public void enter() {
      // The device of every thread.
    }

    @Override
    public WorkQueue main() {
      throw new AssertionError("matrices need no work of the device");
    }

    @Override
    public WorkQueue side() {
      throw new AssertionError("matrices need no work of the device");
    }

    @Override
    public CapturedWork capture(Runnable calls) {
      throw new AssertionError("matrices need no work of the device");
    }

    @Override
    public void close() {
      // Nothing is open.
    }
  }

  private static long bytes(int hidden, int intermediate, boolean dequantised) {
    var shape = new MoeShape(hidden, intermediate, 0, RouterConfig.softmax(EXPERTS, 1));
    var placement = ReplicatedPlacement.of(ExpertPlacement.blocks(EXPERTS, 1));
    MoeWeights weights = new RandomLayer(shape, 1).inFp8().weights(placement, 0);
    List<ExpertWeights> experts = (dequantised ? weights.dequantised() : weights).experts();
    try (var memory = new Memory()) {
      DeviceExperts of = DeviceExperts.of(memory, hidden, intermediate, experts);
      assertThat(of.factorBytes(1)).isEqualTo(4L * intermediate);
      assertThat(memory.written).isEqualTo(memory.allocated);
      return memory.allocated;
    }
  }

  @Test
  void matricesOfFp8TakeAByteForAnElementAndAFactorForABlock() {
    long elements = 3L * EXPERTS * 256 * 128;
    assertThat(bytes(256, 128, false)).isEqualTo(elements + elements / 128 / 128 * 4);
    assertThat(bytes(256, 128, true)).isEqualTo(2 * elements);
  }

  /** A block would belong to w1 and w3. */
  @Test
  void matricesOfPartsOfBlocksAreInBf16() {
    assertThat(bytes(128, 136, false)).isEqualTo(2L * 3 * EXPERTS * 128 * 136);
    assertThat(bytes(160, 128, false)).isEqualTo(2L * 3 * EXPERTS * 160 * 128);
  }

  @Test
  void matricesOfBf16ArriveBitForBit() {
    var values = new float[16 * 8];
    for (int i = 0; i < values.length; i++) {
      values[i] = i - 60.5f;
    }
    Tensor wide = Tensor.fromFloats(values, DType.BF16, 16, 8);
    Tensor high = Tensor.fromFloats(values, DType.BF16, 8, 16);
    try (var memory = new Memory()) {
      DeviceExperts.of(memory, 8, 16, List.of(new ExpertWeights(wide, wide, high)));
      assertThat(memory.written).isEqualTo(3L * 2 * values.length);
      assertThat(memory.last)
          .containsExactly(high.segment().toArray(ValueLayout.JAVA_FLOAT_UNALIGNED));
      assertThatThrownBy(
              () -> DeviceExperts.of(memory, 8, 16, List.of(new ExpertWeights(wide, high, high))))
          .hasMessageContaining("experts[0].w3");
    }
  }

  /** Few rows are multiplied by codes of NaN as if they were numbers. */
  @Test
  void aBlockWithNaNHasAFactorThatIsNone() {
    var codes = new byte[256 * 256];
    codes[130 * 256 + 5] = 0x7f;
    codes[100 * 256 + 200] = (byte) 0xff;
    float[] factors = {1, 2, 3, 4};
    try (var memory = new Memory()) {
      new Fp8Weights(memory, 2, 512, 256).write(1, 256, MemorySegment.ofArray(codes), factors);
      assertThat(memory.last).containsExactly(1, Float.NaN, Float.NaN, 4);
      assertThat(factors).containsExactly(1, 2, 3, 4);
    }
  }
}
