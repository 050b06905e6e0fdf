package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Random;
import org.ep4j.conformance.world.HostCompiler;
import org.ep4j.moe.gpu.MoeKernel;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.FloatConversions;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;

/**
 * Tests that run kernels of a layer in the emulator on random cases. {@code -Dep4j.seed} selects
 * other cases.
 */
abstract class EmulatedKernelCases {
  static final long SEED = Long.getLong("ep4j.seed", 1);
  static final int CASES = Integer.getInteger("ep4j.cases", 60);

  final GuardedMemory memory = new GuardedMemory();
  final Random random = new Random(SEED);

  @BeforeAll
  static void requireCompiler() {
    HostCompiler.require("to compile kernels for the host");
  }

  @AfterEach
  void nothingIsWrittenBehindMemory() {
    memory.close();
  }

  final void run(MoeKernel kernel, int sharedFloats, Object... parameters) {
    runIn(kernel, kernel.warps() * sharedFloats * Float.BYTES, parameters);
  }

  final void runIn(MoeKernel kernel, int sharedBytes, Object... parameters) {
    assertThat(parameters).hasSize(kernel.parameters());
    int blocks = 1 + random.nextInt(3);
    EmulatedLayer.kernels()
        .run(
            random.nextLong(),
            kernel.symbol(),
            blocks,
            kernel.threads(),
            sharedBytes,
            Arrays.stream(parameters)
                .mapToLong(
                    p -> p instanceof MemorySegment s ? s.address() : ((Number) p).longValue())
                .toArray());
  }

  static float[] floats(MemorySegment part) {
    return part.toArray(ValueLayout.JAVA_FLOAT);
  }

  static float[] bf16Values(MemorySegment part) {
    short[] bits = part.toArray(ValueLayout.JAVA_SHORT);
    var values = new float[bits.length];
    for (int i = 0; i < bits.length; i++) {
      values[i] = FloatConversions.bf16ToFloat(bits[i]);
    }
    return values;
  }

  static float[] rounded(float[] values) {
    return Tensor.fromFloats(values, DType.BF16, values.length).toFloatArray();
  }

  final MemorySegment bf16(float[] values) {
    var bits = new short[values.length];
    for (int i = 0; i < bits.length; i++) {
      bits[i] = FloatConversions.floatToBf16(values[i]);
    }
    return memory.of(bits);
  }

  final float[] values(int count, float scale) {
    var values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] = scale * (float) random.nextGaussian();
    }
    return values;
  }

  final MemorySegment bytes(byte[] values) {
    return memory.allocate(values.length).copyFrom(MemorySegment.ofArray(values));
  }
}
