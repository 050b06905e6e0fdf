package org.ep4j.engine.host.kernel;

import static jdk.incubator.vector.VectorOperators.GT;
import static org.ep4j.engine.host.kernel.VectorKernels.BYTES;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOAT;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOATS;
import static org.ep4j.engine.host.kernel.VectorKernels.INTS;
import static org.ep4j.engine.host.kernel.VectorKernels.MEMORY;
import static org.ep4j.engine.host.kernel.VectorKernels.ORDER;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import org.ep4j.tensor.DType;

/** Sums of float32 rows. */
final class VectorFp32Sums {
  private VectorFp32Sums() {}

  static void rows(long[] rows, int count, long out, int elements) {
    long bytes = 4L * elements;
    long at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      FloatVector sum = FloatVector.zero(FLOAT);
      int r = 0;
      for (; r < count - 1; r += 2) { // two rows per step: C2 does not unroll so short a loop
        sum =
            FLOATS.cast(FloatVector.fromMemorySegment(FLOAT, MEMORY, rows[r] + at, ORDER)).add(sum);
        sum =
            FLOATS
                .cast(FloatVector.fromMemorySegment(FLOAT, MEMORY, rows[r + 1] + at, ORDER))
                .add(sum);
      }
      if (r < count) {
        sum =
            FLOATS.cast(FloatVector.fromMemorySegment(FLOAT, MEMORY, rows[r] + at, ORDER)).add(sum);
      }
      IntVector bits = INTS.cast(FLOATS.cast(sum).reinterpretAsInts());
      bits.blend(Fp32.NAN, bits.and(0x7FFFFFFF).compare(GT, 0x7F800000))
          .intoMemorySegment(MEMORY, out + at, ORDER);
    }
    PlainSums.fp32Rows(rows, count, out, (int) (at / 4), elements);
  }

  /** Fused multiply-adds of rows and their weights. */
  static void weightedRows(long[] rows, float[] weights, int count, long out, int elements) {
    long bytes = 4L * elements;
    long at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      FloatVector sum = FloatVector.zero(FLOAT);
      for (int r = 0; r < count; r++) {
        FloatVector w = FloatVector.broadcast(FLOAT, weights[r]);
        sum =
            FLOATS
                .cast(FloatVector.fromMemorySegment(FLOAT, MEMORY, rows[r] + at, ORDER))
                .fma(w, sum);
      }
      IntVector bits = INTS.cast(FLOATS.cast(sum).reinterpretAsInts());
      bits.blend(Fp32.NAN, bits.and(0x7FFFFFFF).compare(GT, 0x7F800000))
          .intoMemorySegment(MEMORY, out + at, ORDER);
    }
    PlainSums.weighted(DType.FP32, rows, weights, count, out, (int) (at / 4), elements);
  }

  static void groups(long[] rows, int[] groupEnd, int groups, long out, int elements) {
    long bytes = 4L * elements;
    long at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      FloatVector sum = FloatVector.zero(FLOAT);
      int r = 0;
      for (int g = 0; g < groups; g++) {
        FloatVector part = FloatVector.zero(FLOAT);
        for (int end = groupEnd[g]; r < end; r++) {
          part =
              FLOATS
                  .cast(FloatVector.fromMemorySegment(FLOAT, MEMORY, rows[r] + at, ORDER))
                  .add(part);
        }
        sum = FLOATS.cast(part).add(sum);
      }
      IntVector bits = INTS.cast(FLOATS.cast(sum).reinterpretAsInts());
      bits.blend(Fp32.NAN, bits.and(0x7FFFFFFF).compare(GT, 0x7F800000))
          .intoMemorySegment(MEMORY, out + at, ORDER);
    }
    PlainSums.groups(DType.FP32, rows, groupEnd, groups, false, out, (int) (at / 4), elements);
  }

  /** As {@link #groups}, of rows times their weights. */
  static void scaledGroups(
      long[] rows, float[] weights, int[] groupEnd, int groups, long out, int elements) {
    long bytes = 4L * elements;
    long at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      FloatVector sum = FloatVector.zero(FLOAT);
      int r = 0;
      for (int g = 0; g < groups; g++) {
        FloatVector part = FloatVector.zero(FLOAT);
        for (int end = groupEnd[g]; r < end; r++) {
          FloatVector w = FloatVector.broadcast(FLOAT, weights[r]);
          part =
              FLOATS
                  .cast(FloatVector.fromMemorySegment(FLOAT, MEMORY, rows[r] + at, ORDER))
                  .mul(w)
                  .add(part);
        }
        sum = FLOATS.cast(part).add(sum);
      }
      IntVector bits = INTS.cast(FLOATS.cast(sum).reinterpretAsInts());
      bits.blend(Fp32.NAN, bits.and(0x7FFFFFFF).compare(GT, 0x7F800000))
          .intoMemorySegment(MEMORY, out + at, ORDER);
    }
    PlainSums.scaledGroups(
        DType.FP32, rows, weights, groupEnd, groups, false, out, (int) (at / 4), elements);
  }
}
