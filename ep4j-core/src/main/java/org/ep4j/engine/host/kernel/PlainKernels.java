package org.ep4j.engine.host.kernel;

import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleKind;

/** The kernels without the Vector API. */
final class PlainKernels extends RowKernels {
  private static final LogFmtRows LOG_FMT = new PlainLogFmt();

  @Override
  public int vectorBits() {
    return 0;
  }

  @Override
  public void reduceRows(DType type, long[] rows, int count, long out, int elements) {
    PlainSums.rows(type, rows, count, out, 0, elements);
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
    PlainSums.groups(type, rows, groupEnd, groups, partialRounding, out, 0, elements);
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
    PlainSums.scaledGroups(
        type, rows, weights, groupEnd, groups, partialRounding, out, 0, elements);
  }

  @Override
  public void weightedReduce(
      DType type, long[] rows, float[] weights, int count, long out, int elements) {
    PlainSums.weighted(type, rows, weights, count, out, 0, elements);
  }

  @Override
  public void weightedReduceGroups(
      long[] rows, float[] weights, int[] groupEnd, int groups, long out, int elements) {
    PlainSums.weightedGroups(rows, weights, groupEnd, groups, out, 0, elements);
  }

  @Override
  public void encodeFp8(long source, int hidden, long target, long scales, ScaleKind kind) {
    PlainFp8.encode(source, hidden, target, scales, kind);
  }

  @Override
  public void decodeFp8(long source, int hidden, long target) {
    PlainFp8.decode(source, target, 0, hidden);
  }

  @Override
  public void dequantiseFp8(long source, long scales, ScaleKind kind, int hidden, long target) {
    PlainFp8.dequantise(source, scales, kind, hidden, target);
  }

  @Override
  public float largestMagnitude(long source, int elements) {
    return Bf16.toFloat((short) PlainNvFp4.largest(source, 0, elements));
  }

  @Override
  public void encodeNvFp4(long source, int hidden, float globalScale, long target, long scales) {
    PlainNvFp4.encode(source, hidden, globalScale, target, scales);
  }

  @Override
  public void dequantiseNvFp4(
      long source, long scales, float globalScale, int hidden, long target) {
    PlainNvFp4.dequantise(source, scales, globalScale, hidden, target);
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
