package org.ep4j.engine.host.kernel;

import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleKind;

/**
 * The inner loops of the host engine over rows at absolute native addresses.
 *
 * <p>No kernel checks addresses or shapes: callers pass checked memory and keep it alive. Element
 * counts are even; addresses need no alignment beyond two bytes. An output must not overlap an
 * input. The kernels hold no state, allocate nothing and are thread-safe.
 *
 * <p>All implementations produce the same bits. Sums start from +0 in float32 and add in the given
 * order, so a sum of negative zeros is +0; the result is rounded once, to nearest even, and every
 * NaN result is the canonical one of its type ({@link Bf16#NAN}, {@link Fp16#NAN}, {@link
 * Fp32#NAN}).
 */
public abstract class RowKernels {
  /** For implementations. */
  protected RowKernels() {}

  /**
   * The kernels of this process: with the Vector API if module {@code jdk.incubator.vector} is
   * present and the JVM has an optimizing compiler, else plain ones. System property {@code
   * ep4j.host.vectorBits} (0, 128, 256 or 512) forces a vector width, 0 the plain kernels.
   *
   * @throws org.ep4j.error.InvalidArgumentException if the property has another value, or asks for
   *     vectors while the module is missing
   */
  public static RowKernels get() {
    return KernelChoice.kernels();
  }

  /** Bits of a vector, 0 for the plain kernels. */
  public abstract int vectorBits();

  /** Copies {@code bytes} bytes between ranges that do not overlap. */
  public final void copy(long source, long target, long bytes) {
    NativeMemory.copy(source, target, bytes);
  }

  /** Sets {@code bytes} bytes to zero. */
  public final void zero(long target, long bytes) {
    NativeMemory.fill(target, bytes, (byte) 0);
  }

  /**
   * High-throughput combine, FLAT: {@code out = round(0 + rows[0] + rows[1] + ...)}. A bias is one
   * of the first rows.
   *
   * @param type BF16, FP16 or FP32, of rows and result
   * @param rows addresses of the rows in the order of addition
   * @param count rows in use, 0 allowed
   * @param out address of the result row
   * @param elements elements of a row
   */
  public abstract void reduceRows(DType type, long[] rows, int count, long out, int elements);

  /**
   * High-throughput combine, EXPERT_MAJOR: the rows form groups (one per rank); each group is
   * summed from +0, its sum rounded to {@code type} if {@code partialRounding}, and the groups'
   * sums are added from +0. A bias is a group of one row, before the others.
   *
   * @param type BF16, FP16 or FP32, of rows and result
   * @param rows addresses of the rows, group after group, in the order of addition
   * @param groupEnd for each group the index in {@code rows} after its last row
   * @param groups groups in use, 0 allowed
   * @param partialRounding whether each group's sum is rounded to {@code type}
   * @param out address of the result row
   * @param elements elements of a row
   */
  public abstract void reduceGroups(
      DType type,
      long[] rows,
      int[] groupEnd,
      int groups,
      boolean partialRounding,
      long out,
      int elements);

  /**
   * High-throughput combine that applies weights, EXPERT_MAJOR: as {@link #reduceGroups}, but each
   * value is first multiplied by the weight of its row in float32. The product is rounded before it
   * is added: no fused multiply-add. A row of weight 1 is a bias.
   *
   * @param type BF16, FP16 or FP32, of rows and result
   * @param rows addresses of the rows, group after group, in the order of addition
   * @param weights weight of each row
   * @param groupEnd for each group the index in {@code rows} after its last row
   * @param groups groups in use, 0 allowed
   * @param partialRounding whether each group's sum is rounded to {@code type}
   * @param out address of the result row
   * @param elements elements of a row
   */
  public abstract void reduceScaledGroups(
      DType type,
      long[] rows,
      float[] weights,
      int[] groupEnd,
      int groups,
      boolean partialRounding,
      long out,
      int elements);

  /**
   * Low-latency combine, and high-throughput combine by experts with weights: {@code acc =
   * fma(rows[i], weights[i], acc)} in float32 from +0, in order, rounded once.
   *
   * @param type BF16, FP16 or FP32, of rows and result
   * @param rows addresses of the rows in the order of addition, without masked ones
   * @param weights weight of each row
   * @param count rows in use, 0 allowed
   * @param out address of the result row
   * @param elements elements of a row
   */
  public abstract void weightedReduce(
      DType type, long[] rows, float[] weights, int count, long out, int elements);

  /**
   * Low-latency combine with one partial row per rank: per group {@code p = fma(rows[i],
   * weights[i], p)} from +0, rounded to BF16; the rounded partials are added in float32 from +0 in
   * the order of the groups and rounded once. The same bits as a {@link #weightedReduce} on each
   * rank and a {@link #reduceRows} of its results.
   *
   * @param rows addresses of the rows, group after group
   * @param weights weight of each row
   * @param groupEnd for each group the index in {@code rows} after its last row
   * @param groups groups in use, 0 allowed
   * @param out address of the result row
   * @param elements elements of a row
   */
  public abstract void weightedReduceGroups(
      long[] rows, float[] weights, int[] groupEnd, int groups, long out, int elements);

  /**
   * Quantises a BF16 row to FP8 E4M3 as {@link Fp8} defines it.
   *
   * @param source address of the BF16 row
   * @param hidden values of the row, a multiple of {@link Fp8#BLOCK}
   * @param target address of {@code hidden} bytes
   * @param scales address of the row's scales: {@code hidden / 128} float32, or as many bytes with
   *     UE8M0
   * @param kind kind of the scales
   */
  public abstract void encodeFp8(long source, int hidden, long target, long scales, ScaleKind kind);

  /**
   * Widens E4M3 values to BF16, without scales; exact, NaN becomes {@link Bf16#NAN}.
   *
   * @param source address of {@code hidden} bytes
   * @param hidden values of the row
   * @param target address of the BF16 row
   */
  public abstract void decodeFp8(long source, int hidden, long target);

  /**
   * Dequantises an FP8 row with scales to BF16: {@code bf16(float(value) * scale)}, the product in
   * float32, each rounded to nearest even.
   *
   * @param source address of {@code hidden} bytes
   * @param scales address of the row's scales, as {@link #encodeFp8} writes them
   * @param kind the kind of the scales
   * @param hidden values of the row, a multiple of {@link Fp8#BLOCK}
   * @param target address of the BF16 row
   */
  public abstract void dequantiseFp8(
      long source, long scales, ScaleKind kind, int hidden, long target);

  /**
   * The largest magnitude of a BF16 row, without NaN; 0 for an empty row.
   *
   * @param source address of the BF16 row
   * @param elements values of the row
   */
  public abstract float largestMagnitude(long source, int elements);

  /**
   * Quantises a BF16 row to NVFP4 as {@link NvFp4} defines it.
   *
   * @param source address of the BF16 row
   * @param hidden values of the row, a multiple of {@link NvFp4#BLOCK}
   * @param globalScale multiplier of the token or tensor, positive and finite
   * @param target address of {@code hidden / 2} bytes
   * @param scales address of {@code hidden / 16} bytes
   */
  public abstract void encodeNvFp4(
      long source, int hidden, float globalScale, long target, long scales);

  /**
   * Dequantises an NVFP4 row to BF16 as {@link NvFp4} defines it.
   *
   * @param source address of {@code hidden / 2} bytes
   * @param scales address of {@code hidden / 16} bytes
   * @param globalScale multiplier of the quantisation
   * @param hidden values of the row, a multiple of {@link NvFp4#BLOCK}
   * @param target address of the BF16 row
   */
  public abstract void dequantiseNvFp4(
      long source, long scales, float globalScale, int hidden, long target);

  /**
   * Encodes a BF16 row in LogFMT-10 as {@link LogFmt} defines it.
   *
   * @param source address of the BF16 row
   * @param hidden values of the row, a multiple of {@link LogFmt#GROUP}
   * @param target address of {@link LogFmt#maxBytes} bytes, all of which may be used as scratch
   * @return bytes of the encoded row
   */
  public abstract int encodeLogFmt(long source, int hidden, long target);

  /**
   * Decodes a row in LogFMT-10.
   *
   * @param source address of the encoded row
   * @param hidden values of the row, a multiple of {@link LogFmt#GROUP}
   * @param target address of the BF16 row
   */
  public abstract void decodeLogFmt(long source, int hidden, long target);
}
