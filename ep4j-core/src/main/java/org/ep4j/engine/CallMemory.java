package org.ep4j.engine;

import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The memory in which an engine accepts the tensors of a call. Each check refuses a tensor before
 * anything is sent, accepts null, and allocates nothing if it passes.
 */
public interface CallMemory {
  /** Requires memory that the engine reads. */
  void readable(String name, @Nullable Tensor tensor);

  /** The same for rows, which may have to be aligned. */
  void rows(String name, @Nullable Tensor tensor);

  /** Requires memory that the engine writes. */
  void writable(String name, @Nullable Tensor tensor);

  /** The same for rows, which may have to be aligned. */
  void writableRows(String name, @Nullable Tensor tensor);
}
