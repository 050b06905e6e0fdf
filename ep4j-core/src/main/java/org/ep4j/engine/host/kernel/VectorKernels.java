package org.ep4j.engine.host.kernel;

import org.ep4j.DType;
import org.ep4j.ScaleKind;

/** The kernels with the Vector API, at the one width of this process. */
final class VectorKernels extends RowKernels {
  private static final LogFmtRows LOG_FMT = new VectorLogFmt();

  @Override
  public int vectorBits() {
    return Lanes.BITS;
  }

  @Override
  public void reduceRows(DType type, long[] rows, int count, long out, int elements) {
    switch (type) {
      case BF16 -> VectorBf16Sums.rows(rows, count, out, elements);
      case FP16 -> VectorFp16Sums.rows(rows, count, out, elements);
      case FP32 -> VectorFp32Sums.rows(rows, count, out, elements);
      default -> throw PlainSums.notSummable(type);
    }
  }

  @Override
  public void reduceGroups(
      DType type,
      long[] rows,
      int[] groupEnd,
      int groups,
      boolean partialRounding,
      long out,
      int elements) {
    switch (type) {
      case BF16 -> VectorBf16Sums.groups(rows, groupEnd, groups, partialRounding, out, elements);
      case FP16 -> VectorFp16Sums.groups(rows, groupEnd, groups, partialRounding, out, elements);
      case FP32 -> VectorFp32Sums.groups(rows, groupEnd, groups, out, elements);
      default -> throw PlainSums.notSummable(type);
    }
  }

  @Override
  public void reduceScaledGroups(
      DType type,
      long[] rows,
      float[] weights,
      int[] groupEnd,
      int groups,
      boolean partialRounding,
      long out,
      int elements) {
    switch (type) {
      case BF16 ->
          VectorBf16WeightedSums.scaledGroups(
              rows, weights, groupEnd, groups, partialRounding, out, elements);
      case FP16 ->
          VectorFp16Sums.scaledGroups(
              rows, weights, groupEnd, groups, partialRounding, out, elements);
      case FP32 -> VectorFp32Sums.scaledGroups(rows, weights, groupEnd, groups, out, elements);
      default -> throw PlainSums.notSummable(type);
    }
  }

  @Override
  public void weightedReduce(long[] rows, float[] weights, int count, long out, int elements) {
    VectorBf16WeightedSums.rows(rows, weights, count, out, elements);
  }

  @Override
  public void weightedReduceGroups(
      long[] rows, float[] weights, int[] groupEnd, int groups, long out, int elements) {
    VectorBf16WeightedSums.groups(rows, weights, groupEnd, groups, out, elements);
  }

  @Override
  public void encodeFp8(long source, int hidden, long target, long scales, ScaleKind kind) {
    VectorFp8.encode(source, hidden, target, scales, kind);
  }

  @Override
  public void decodeFp8(long source, int hidden, long target) {
    VectorFp8.decode(source, hidden, target);
  }

  @Override
  public void dequantiseFp8(long source, long scales, ScaleKind kind, int hidden, long target) {
    VectorFp8.dequantise(source, scales, kind, hidden, target);
  }

  @Override
  public float largestMagnitude(long source, int elements) {
    return Bf16.toFloat((short) VectorNvFp4.largest(source, elements));
  }

  @Override
  public void encodeNvFp4(long source, int hidden, float globalScale, long target, long scales) {
    VectorNvFp4.encode(source, hidden, globalScale, target, scales);
  }

  @Override
  public void dequantiseNvFp4(
      long source, long scales, float globalScale, int hidden, long target) {
    VectorNvFp4.dequantise(source, scales, globalScale, hidden, target);
  }

  @Override
  public int encodeLogFmt(long source, int hidden, long target) {
    return LOG_FMT.encode(source, hidden, target);
  }

  @Override
  public void decodeLogFmt(long source, int hidden, long target) {
    LOG_FMT.decode(source, hidden, target);
  }
}
