package org.ep4j.engine.host.kernel;

import com.sun.management.ThreadMXBean;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.management.ManagementFactory;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleKind;

/**
 * A program: calls every kernel until it no longer allocates, and prints the bytes of the last
 * calls. With an argument it first uses vectors of another width.
 */
final class KernelAllocations {
  /** Number of printed lines. */
  static final int CALLS = 29;

  private static final int HIDDEN = 1024;
  private static final int ROWS = 7;
  private static final int WINDOW = 500;

  /** Maximum time for which a kernel may allocate: on a busy machine compilation is late. */
  private static final long MAX_NANOS = TimeUnit.SECONDS.toNanos(20);

  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  private final RowKernels kernels = RowKernels.get();
  private final MemorySegment memory = Arena.global().allocate((ROWS + 3) * 4L * HIDDEN, 64);
  private final long out = memory.address() + ROWS * 4L * HIDDEN;
  private final long encoded = out + 4L * HIDDEN;
  private final long[] rows = new long[ROWS];
  private final float[] weights = new float[ROWS];
  private final int[] groupEnd = {1, 4, 7};

  private KernelAllocations() {
    Random random = new Random(1);
    for (int r = 0; r < ROWS; r++) {
      rows[r] = memory.address() + r * 4L * HIDDEN;
      weights[r] = random.nextFloat();
    }
    for (long i = 0; i < memory.byteSize() / 2; i++) {
      float value = (float) Math.clamp(random.nextGaussian() / 8, -0.9, 0.9);
      memory.setAtIndex(ValueLayout.JAVA_SHORT, i, Bf16.fromFloat(value));
    }
  }

  public static void main(String[] args) {
    KernelAllocations data = new KernelAllocations();
    if (args.length > 0) {
      useOtherVectors(data.kernels.vectorBits() == 256 ? 128 : 256);
    }
    data.sums();
    data.conversions();
  }

  /** As an application may do: the profiles of the Vector API then know two widths. */
  private static void useOtherVectors(int bits) {
    VectorShape shape = VectorShape.forBitSize(bits);
    VectorSpecies<Float> floats = VectorSpecies.of(float.class, shape);
    VectorSpecies<Short> shorts = VectorSpecies.of(short.class, shape);
    float[] numbers = new float[64];
    short[] codes = new short[64];
    for (int i = 0; i < 30_000; i++) {
      FloatVector x = FloatVector.fromArray(floats, numbers, i & 31);
      IntVector y = x.add(1f).mul(x).fma(x, x).max(0f).min(1f).sub(x).reinterpretAsInts();
      y = y.and(7).or(y).add(1).sub(y).max(0).lanewise(VectorOperators.LSHR, 3);
      y = y.blend(5, y.compare(VectorOperators.GT, 3)).lanewise(VectorOperators.LSHL, 2);
      y.reinterpretAsFloats().blend(x, x.compare(VectorOperators.LT, 0f)).intoArray(numbers, 0);
      ShortVector z = ShortVector.fromArray(shorts, codes, i & 31).and((short) 7).add((short) 1);
      z = z.blend(z.max(z), z.compare(VectorOperators.EQ, (short) 3)).or(z);
      codes[0] = z.lanewise(VectorOperators.LSHL, 1).reduceLanes(VectorOperators.MAX);
    }
  }

  private void sums() {
    count("BF16 rows", () -> kernels.reduceRows(DType.BF16, rows, ROWS, out, HIDDEN));
    count("BF16 three rows", () -> kernels.reduceRows(DType.BF16, rows, 3, out, HIDDEN));
    count("BF16 four rows", () -> kernels.reduceRows(DType.BF16, rows, 4, out, HIDDEN));
    count("FP16 rows", () -> kernels.reduceRows(DType.FP16, rows, ROWS, out, HIDDEN));
    count("FP32 rows", () -> kernels.reduceRows(DType.FP32, rows, ROWS, out, HIDDEN));
    count("BF16 groups", () -> groups(DType.BF16, true));
    count("BF16 groups, one rounding", () -> groups(DType.BF16, false));
    count("FP16 groups", () -> groups(DType.FP16, true));
    count("FP16 groups, one rounding", () -> groups(DType.FP16, false));
    count("FP32 groups", () -> groups(DType.FP32, true));
    count("BF16 scaled groups", () -> scaledGroups(DType.BF16, true));
    count("BF16 scaled groups, one rounding", () -> scaledGroups(DType.BF16, false));
    count("FP16 scaled groups", () -> scaledGroups(DType.FP16, true));
    count("FP32 scaled groups", () -> scaledGroups(DType.FP32, true));
    for (DType type : new DType[] {DType.BF16, DType.FP16, DType.FP32}) {
      count(
          type + " weighted rows",
          () -> kernels.weightedReduce(type, rows, weights, ROWS, out, HIDDEN));
    }
    count(
        "weighted groups",
        () -> kernels.weightedReduceGroups(rows, weights, groupEnd, 3, out, HIDDEN));
    count("copy", () -> kernels.copy(rows[0], out, HIDDEN));
    count("zero", () -> kernels.zero(out, HIDDEN));
  }

  private void conversions() {
    long scales = out + HIDDEN;
    count("FP8 encode", () -> kernels.encodeFp8(rows[0], HIDDEN, out, scales, ScaleKind.FLOAT32));
    count(
        "FP8 encode with UE8M0",
        () -> kernels.encodeFp8(rows[0], HIDDEN, out, scales, ScaleKind.UE8M0));
    count("FP8 decode", () -> kernels.decodeFp8(rows[0], HIDDEN, out));
    count(
        "FP8 dequantise",
        () -> kernels.dequantiseFp8(rows[0], rows[1], ScaleKind.FLOAT32, HIDDEN, out));
    count("largest magnitude", () -> kernels.largestMagnitude(rows[0], HIDDEN));
    count("NVFP4 encode", () -> kernels.encodeNvFp4(rows[0], HIDDEN, 2688f, out, scales));
    count("NVFP4 dequantise", () -> kernels.dequantiseNvFp4(rows[0], rows[1], 2688f, HIDDEN, out));
    count("LogFMT encode", () -> kernels.encodeLogFmt(rows[0], HIDDEN, encoded));
    count("LogFMT decode", () -> kernels.decodeLogFmt(encoded, HIDDEN, out));
  }

  private void groups(DType type, boolean partialRounding) {
    kernels.reduceGroups(type, rows, groupEnd, groupEnd.length, partialRounding, out, HIDDEN);
  }

  private void scaledGroups(DType type, boolean partialRounding) {
    kernels.reduceScaledGroups(
        type, rows, weights, groupEnd, groupEnd.length, partialRounding, out, HIDDEN);
  }

  private static void count(String what, Runnable call) {
    long allocated = Long.MAX_VALUE;
    long start = System.nanoTime();
    while (allocated != 0 && System.nanoTime() - start < MAX_NANOS) {
      long before = THREADS.getCurrentThreadAllocatedBytes();
      for (int i = 0; i < WINDOW; i++) {
        call.run();
      }
      allocated = THREADS.getCurrentThreadAllocatedBytes() - before;
    }
    AllocatingCalls.print(allocated, WINDOW + " times " + what);
  }
}
