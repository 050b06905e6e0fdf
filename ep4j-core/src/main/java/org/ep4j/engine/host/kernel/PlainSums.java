package org.ep4j.engine.host.kernel;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.DType;

/**
 * Sums of rows, element by element. Each method works on elements {@code from} to {@code to}: the
 * vector kernels use it for the rest of a row.
 */
final class PlainSums {
  private PlainSums() {}

  static void rows(DType type, long[] rows, int count, long out, int from, int to) {
    switch (type) {
      case BF16 -> bf16Rows(rows, count, out, from, to);
      case FP16 -> fp16Rows(rows, count, out, from, to);
      case FP32 -> fp32Rows(rows, count, out, from, to);
      default -> throw notSummable(type);
    }
  }

  static void bf16Rows(long[] rows, int count, long out, int from, int to) {
    int at = from;
    for (; at < to - 1; at += 2) { // two elements per load
      float even = 0;
      float odd = 0;
      for (int r = 0; r < count; r++) {
        int pair = NativeMemory.getInt(rows[r] + 2L * at);
        even += Float.intBitsToFloat(pair << 16);
        odd += Float.intBitsToFloat(pair & 0xFFFF0000);
      }
      NativeMemory.putInt(out + 2L * at, Bf16.fromFloat(odd) << 16 | Bf16.fromFloat(even) & 0xFFFF);
    }
    for (; at < to; at++) {
      float sum = 0;
      for (int r = 0; r < count; r++) {
        sum += Bf16.toFloat(NativeMemory.getShort(rows[r] + 2L * at));
      }
      NativeMemory.putShort(out + 2L * at, Bf16.fromFloat(sum));
    }
  }

  static void fp16Rows(long[] rows, int count, long out, int from, int to) {
    for (int at = from; at < to; at++) {
      float sum = 0;
      for (int r = 0; r < count; r++) {
        sum += Fp16.toFloat(NativeMemory.getShort(rows[r] + 2L * at));
      }
      NativeMemory.putShort(out + 2L * at, Fp16.fromFloat(sum));
    }
  }

  static void fp32Rows(long[] rows, int count, long out, int from, int to) {
    for (int at = from; at < to; at++) {
      float sum = 0;
      for (int r = 0; r < count; r++) {
        sum += NativeMemory.getFloat(rows[r] + 4L * at);
      }
      NativeMemory.putInt(out + 4L * at, Fp32.toBits(sum));
    }
  }

  static void groups(
      DType type,
      long[] rows,
      int[] groupEnd,
      int groups,
      boolean partialRounding,
      long out,
      int from,
      int to) {
    if (!type.summable()) {
      throw notSummable(type);
    }
    for (int at = from; at < to; at++) {
      float sum = 0;
      int row = 0;
      for (int g = 0; g < groups; g++) {
        float partial = 0;
        for (int end = groupEnd[g]; row < end; row++) {
          partial += load(type, rows[row], at);
        }
        sum += partialRounding ? round(type, partial) : partial;
      }
      store(type, out, at, sum);
    }
  }

  static void scaledGroups(
      DType type,
      long[] rows,
      float[] weights,
      int[] groupEnd,
      int groups,
      boolean partialRounding,
      long out,
      int from,
      int to) {
    if (!type.summable()) {
      throw notSummable(type);
    }
    for (int at = from; at < to; at++) {
      float sum = 0;
      int row = 0;
      for (int g = 0; g < groups; g++) {
        float partial = 0;
        for (int end = groupEnd[g]; row < end; row++) {
          partial += load(type, rows[row], at) * weights[row];
        }
        sum += partialRounding ? round(type, partial) : partial;
      }
      store(type, out, at, sum);
    }
  }

  static void weighted(
      DType type, long[] rows, float[] weights, int count, long out, int from, int to) {
    if (!type.summable()) {
      throw notSummable(type);
    }
    for (int at = from; at < to; at++) {
      float sum = 0;
      for (int r = 0; r < count; r++) {
        sum = Math.fma(load(type, rows[r], at), weights[r], sum);
      }
      store(type, out, at, sum);
    }
  }

  static void weightedGroups(
      long[] rows, float[] weights, int[] groupEnd, int groups, long out, int from, int to) {
    for (int at = from; at < to; at++) {
      float sum = 0;
      int row = 0;
      for (int g = 0; g < groups; g++) {
        float partial = 0;
        for (int end = groupEnd[g]; row < end; row++) {
          float value = Bf16.toFloat(NativeMemory.getShort(rows[row] + 2L * at));
          partial = Math.fma(value, weights[row], partial);
        }
        sum += Bf16.round(partial);
      }
      NativeMemory.putShort(out + 2L * at, Bf16.fromFloat(sum));
    }
  }

  static InvalidArgumentException notSummable(DType type) {
    return new InvalidArgumentException(
        ErrorCode.TYPE_NOT_SUMMED,
        "dtype",
        type.name(),
        "BF16, FP16 or FP32",
        "combine rows of these types");
  }

  private static float load(DType type, long row, int at) {
    return switch (type) {
      case BF16 -> Bf16.toFloat(NativeMemory.getShort(row + 2L * at));
      case FP16 -> Fp16.toFloat(NativeMemory.getShort(row + 2L * at));
      case FP32 -> NativeMemory.getFloat(row + 4L * at);
      default -> throw notSummable(type);
    };
  }

  private static float round(DType type, float value) {
    return switch (type) {
      case BF16 -> Bf16.round(value);
      case FP16 -> Fp16.round(value);
      default -> value;
    };
  }

  private static void store(DType type, long out, int at, float value) {
    switch (type) {
      case BF16 -> NativeMemory.putShort(out + 2L * at, Bf16.fromFloat(value));
      case FP16 -> NativeMemory.putShort(out + 2L * at, Fp16.fromFloat(value));
      case FP32 -> NativeMemory.putInt(out + 4L * at, Fp32.toBits(value));
      default -> throw notSummable(type);
    }
  }
}
