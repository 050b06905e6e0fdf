package org.ep4j.moe.gpu;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.ep4j.moe.cublas.Fp8Product;
import org.ep4j.tensor.DType;

/**
 * Matrices in FP8 E4M3 with an FP32 factor for each block of 128 by 128. Few rows are multiplied by
 * them as they are, and so are rows of FP8 where cuBLAS has such products; other rows by a copy in
 * BF16, which is made for each product.
 */
public final class Fp8Weights implements WeightMatrices {
  /** Rows and columns of a block. */
  public static final int BLOCK = 128;

  private final LayerDevice device;
  private final int experts;
  private final int rows;
  private final int columns;
  private final long codes;
  private final long factors;

  /**
   * Memory for matrices, until the device is closed.
   *
   * @param rows a multiple of {@link #BLOCK}
   * @param columns a multiple of {@link #BLOCK}
   */
  public Fp8Weights(LayerDevice device, int experts, int rows, int columns) {
    this.device = device;
    this.experts = experts;
    this.rows = rows;
    this.columns = columns;
    codes = device.allocate(Math.max(1, codesTo(experts)));
    factors = device.allocate(Math.max(1, factorBytesTo(experts)));
  }

  /** Bytes of the matrices before that of an expert. */
  private long codesTo(int expert) {
    return (long) expert * rows * columns;
  }

  private long factorBytesTo(int expert) {
    return DType.FP32.bytes(codesTo(expert) / BLOCK / BLOCK);
  }

  /**
   * Copies rows of a matrix from the host. A block with a NaN gets a factor that is none, because
   * {@link MoeKernel#FEW_ROWS_FP8} takes codes of NaN for numbers.
   *
   * @param firstRow a multiple of {@link #BLOCK}
   * @param ofRows codes of whole rows
   * @param ofBlocks their factors
   */
  public void write(int expert, int firstRow, MemorySegment ofRows, float[] ofBlocks) {
    float[] marked = marked(ofRows, ofBlocks);
    device.write(codes + codesTo(expert) + (long) firstRow * columns, ofRows);
    long blocks = (long) firstRow / BLOCK * (columns / BLOCK);
    device.write(
        factors + factorBytesTo(expert) + DType.FP32.bytes(blocks), MemorySegment.ofArray(marked));
  }

  /** The factors, NaN for a block that has a code of NaN. */
  private float[] marked(MemorySegment ofRows, float[] ofBlocks) {
    float[] marked = ofBlocks.clone();
    for (long i = 0; i < ofRows.byteSize(); i += Long.BYTES) {
      // Adding 1 to the seven bits below its sign carries in a code of NaN alone: all are set.
      long codesBelowSigns = ofRows.get(ValueLayout.JAVA_LONG_UNALIGNED, i) & 0x7f7f7f7f7f7f7f7fL;
      if ((codesBelowSigns + 0x0101010101010101L & 0x8080808080808080L) != 0) {
        marked[(int) (i / columns / BLOCK * (columns / BLOCK) + i % columns / BLOCK)] = Float.NaN;
      }
    }
    return marked;
  }

  @Override
  public void multiply(WorkQueue queue, DeviceScratch scratch, ByExpert product) {
    multiplyAll(queue, scratch, List.of(product));
  }

  @Override
  public void multiplyAll(WorkQueue queue, DeviceScratch scratch, List<ByExpert> products) {
    long copy = scratch.take(DType.BF16.bytes((long) rows * columns));
    for (ByExpert of : products) {
      long vectors = (long) rows * columns / MoeKernel.VECTOR;
      queue.launch(
          MoeKernel.DEQUANTISE_WEIGHTS,
          MoeKernel.DEQUANTISE_WEIGHTS.blocksOfThreads(vectors),
          0,
          codes + codesTo(of.expert()),
          factors + factorBytesTo(of.expert()),
          rows,
          columns,
          copy);
      queue.multiply(of.product().apply(copy));
    }
  }

  /** Whether rows of FP8 can be multiplied by the matrices as they are. */
  public boolean multipliesFp8(WorkQueue queue) {
    return queue.hasFp8Products(rows, columns);
  }

  /**
   * Enqueues {@code out = x · weightsᵀ} for rows of FP8.
   *
   * @param count rows, a multiple of {@link Fp8Product#ROWS}
   * @param x FP8 [count, columns]
   * @param scales FP32 [columns / 128, count]
   * @param out BF16 [count, rows]
   */
  public void multiplyFp8(WorkQueue queue, int expert, int count, long x, long scales, long out) {
    queue.multiply(
        new Fp8Product(
            count,
            /* columns= */ rows,
            /* terms= */ columns,
            x,
            scales,
            codes + codesTo(expert),
            factors + factorBytesTo(expert),
            out));
  }

  @Override
  public void multiplyFew(WorkQueue queue, long x, long counts, long places, long out) {
    queue.launch(
        MoeKernel.FEW_ROWS_FP8,
        MoeKernel.blocksOfFewRows(experts, rows),
        MoeKernel.FEW_ROWS_FP8_BYTES,
        x,
        counts,
        places,
        experts,
        rows,
        columns,
        codes,
        factors,
        out);
  }
}
