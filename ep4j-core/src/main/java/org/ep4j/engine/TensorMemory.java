package org.ep4j.engine;

import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** Memory of a buffer that results show. */
public interface TensorMemory {
  /** A tensor at an address of this memory. */
  Tensor view(long address, DType dtype, long... shape);
}
