package org.ep4j.engine.host.streaming;

import org.ep4j.DType;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.memory.NonTemporalCopy;

/**
 * Sums of one thread, written with non-temporal stores, block by block: the thread sums a block in
 * the first-level cache and streams it from there, while the memory prefetches the blocks needed
 * about a microsecond later. Near the end of a row these are the first blocks of the next token's
 * rows.
 */
public final class NonTemporalSum {
  /**
   * Bytes of a block: large enough to pay for the native call that writes it, small enough for the
   * cache with its inputs. A tenth faster than 512 bytes, and no slower than 2048, on AMD EPYC.
   */
  public static final int BLOCK = 1024;

  /** Streaming stores fill whole lines, so blocks of the result begin with a line. */
  private static final int LINE = 64;

  private final RowKernels kernels = RowKernels.get();
  private final NonTemporalCopy stream;
  private final long block;

  /**
   * @param maxRows maximum rows of a sum
   * @param block address of {@link #BLOCK} bytes
   */
  public NonTemporalSum(int maxRows, long block) {
    stream = new NonTemporalCopy(maxRows + 1);
    this.block = block;
  }

  /**
   * Sums {@code now} and advances its addresses.
   *
   * @param grouped whether groups are summed first
   * @param weighted whether rows are multiplied by their weights; only with {@code grouped}
   * @param next rows of the next sum
   * @param out address of the result, a multiple of {@link NonTemporalCopy#ALIGNMENT}
   * @param rowBytes bytes of a row
   */
  public void sum(
      DType dtype,
      boolean grouped,
      boolean weighted,
      boolean partialRounding,
      TokenRows now,
      TokenRows next,
      long out,
      long rowBytes) {
    int elementBytes = (int) dtype.bytes(1);
    long rotation = Math.max(0, rowBytes - NonTemporalCopy.AHEAD);
    int fetches = fetch(now, 0, out);
    boolean rotated = false;
    for (long at = 0; at < rowBytes; ) {
      if (at >= rotation && !rotated) {
        rotated = true;
        fetches = fetch(next, at - rowBytes, out + at);
      }
      int bytes = (int) Math.min(BLOCK - (out + at & LINE - 1), rowBytes - at);
      int elements = bytes / elementBytes;
      if (grouped) {
        now.sumGroups(kernels, dtype, weighted, partialRounding, block, elements);
      } else {
        kernels.reduceRows(dtype, now.rows, now.count, block, elements);
      }
      for (int i = 0; i < now.count; i++) {
        now.rows[i] += bytes;
      }
      stream.copy(block, bytes, fetches, 1);
      at += bytes;
    }
  }

  /** Prefetches {@code rows} from now on, and writes to {@code out}. */
  private int fetch(TokenRows rows, long offset, long out) {
    for (int i = 0; i < rows.count; i++) {
      stream.places[i] = rows.rows[i] + offset;
    }
    stream.places[rows.count] = out;
    return rows.count;
  }
}
