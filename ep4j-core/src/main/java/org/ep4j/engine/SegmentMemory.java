package org.ep4j.engine;

import java.lang.foreign.MemorySegment;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Host memory that results show.
 *
 * @param segment the whole memory; its tensors live as long
 */
public record SegmentMemory(MemorySegment segment) implements TensorMemory {
  @Override
  public Tensor view(long address, DType dtype, long... shape) {
    long elements = 1;
    for (long extent : shape) {
      elements *= extent;
    }
    long offset = address - segment.address();
    return Tensor.of(segment.asSlice(offset, dtype.bytes(elements)), dtype, shape);
  }
}
