package org.ep4j.verify;

import java.lang.foreign.MemorySegment;
import java.util.List;
import org.ep4j.tensor.Tensor;

/**
 * Rows of all ranks, by rank and number: existing tensors ({@link #of}), or rows generated from
 * their seed on demand ({@link Inputs#rows}).
 */
@FunctionalInterface
public interface Rows {
  /**
   * The bytes of one row; the next call may overwrite them, so one thread at a time uses an
   * instance.
   */
  MemorySegment row(int rank, long row);

  /** Rows of tensors, one tensor per rank; the last dimension is a row. */
  static Rows of(List<Tensor> tensors) {
    MemorySegment[] segments = new MemorySegment[tensors.size()];
    long[] rowBytes = new long[segments.length];
    for (int r = 0; r < segments.length; r++) {
      Tensor tensor = tensors.get(r);
      segments[r] = tensor.segment();
      int last = tensor.dimensions() - 1;
      rowBytes[r] = tensor.dtype().bytes(last == 0 ? 1 : tensor.size(last));
    }
    return (rank, row) -> segments[rank].asSlice(row * rowBytes[rank], rowBytes[rank]);
  }
}
