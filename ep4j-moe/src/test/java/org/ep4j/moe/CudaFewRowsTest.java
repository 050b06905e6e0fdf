package org.ep4j.moe;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Random;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.moe.gpu.CudaLayerDevice;
import org.ep4j.moe.gpu.MoeKernel;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.FloatConversions;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/**
 * Products of few rows on the tensor cores of a GPU, on the random cases of the emulator's test.
 */
class CudaFewRowsTest {
  private static final int CASES = 40;

  @Test
  void fewRowsAreMultipliedByTheWeightsOfTheirExpert() {
    assumeTrue(CudaDevice.count() > 0, "no GPU");
    var random = new Random(Long.getLong("ep4j.seed", 1));
    try (CudaLayerDevice device = CudaLayerDevice.open(0)) {
      for (int number = 0; number < CASES; number++) {
        var of = new FewRowsCase(random);
        long out = bf16(device, of.before);
        device
            .main()
            .launch(
                MoeKernel.FEW_ROWS,
                MoeKernel.blocksOfFewRows(of.experts, of.columns),
                MoeKernel.FEW_ROWS_BYTES,
                bf16(device, of.x),
                copied(device, MemorySegment.ofArray(of.counts.given())),
                of.places,
                of.experts,
                of.columns,
                of.terms,
                bf16(device, of.weights),
                out);
        device.main().await();
        Tensor result = Tensor.ofDevice(out, device.ordinal(), DType.BF16, of.before.length);
        of.check("case " + number, result.toFloatArray());
      }
    }
  }

  @Test
  void fewRowsAreMultipliedByWeightsOfFp8() {
    assumeTrue(CudaDevice.count() > 0, "no GPU");
    var random = new Random(Long.getLong("ep4j.seed", 1));
    try (CudaLayerDevice device = CudaLayerDevice.open(0)) {
      for (int number = 0; number < CASES; number++) {
        var of = new FewRowsCase(random, true);
        long out = bf16(device, of.before);
        device
            .main()
            .launch(
                MoeKernel.FEW_ROWS_FP8,
                MoeKernel.blocksOfFewRows(of.experts, of.columns),
                MoeKernel.FEW_ROWS_FP8_BYTES,
                bf16(device, of.x),
                copied(device, MemorySegment.ofArray(of.counts.given())),
                of.places,
                of.experts,
                of.columns,
                of.terms,
                copied(device, MemorySegment.ofArray(of.codes)),
                copied(device, MemorySegment.ofArray(of.factors)),
                out);
        device.main().await();
        Tensor result = Tensor.ofDevice(out, device.ordinal(), DType.BF16, of.before.length);
        of.check("case " + number, result.toFloatArray());
      }
    }
  }

  private static long copied(CudaLayerDevice device, MemorySegment values) {
    long address = device.allocate(values.byteSize());
    device.write(address, values);
    return address;
  }

  private static long bf16(CudaLayerDevice device, float[] values) {
    long bytes = DType.BF16.bytes(values.length);
    long address = device.allocate(bytes);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment rounded = arena.allocate(bytes);
      FloatConversions.fromFloats(values, DType.BF16, rounded);
      device.write(address, rounded);
    }
    return address;
  }
}
