package org.ep4j.tensor;

import java.lang.foreign.MemorySegment;
import org.ep4j.engine.Devices;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;

/** Copies between a tensor and host memory. */
final class TensorCopies {
  private TensorCopies() {}

  static void copyTo(Tensor tensor, MemorySegment target) {
    MemorySegment exact = exactly("target", target, tensor);
    if (!tensor.onDevice()) {
      exact.copyFrom(tensor.segment());
    } else if (exact.byteSize() > 0) {
      Devices.access(tensor.device()).copyToHost(tensor.device(), tensor.address(), exact);
    }
  }

  static void copyFrom(Tensor tensor, MemorySegment source) {
    MemorySegment exact = exactly("source", source, tensor);
    if (!tensor.onDevice()) {
      writable(tensor).copyFrom(exact);
    } else if (exact.byteSize() > 0) {
      Devices.access(tensor.device()).copyFromHost(tensor.device(), tensor.address(), exact);
    }
  }

  static void copyFrom(Tensor tensor, float[] values) {
    if (tensor.onDevice()) {
      copyFrom(tensor, TensorValues.rounded(values, tensor.dtype(), tensor.shape()));
    } else {
      TensorValues.round(values, tensor.dtype(), tensor.shape(), writable(tensor));
    }
  }

  private static MemorySegment exactly(String name, MemorySegment memory, Tensor tensor) {
    if (memory.byteSize() < tensor.byteSize()) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_MEMORY,
          name,
          memory.byteSize() + " bytes",
          "at least " + tensor.byteSize() + " bytes, the size of " + tensor,
          "pass a segment that holds the whole tensor");
    }
    return memory.asSlice(0, tensor.byteSize());
  }

  private static MemorySegment writable(Tensor tensor) {
    if (tensor.segment().isReadOnly()) {
      throw new IllegalUseException(
          ErrorCode.TENSOR_READ_ONLY, tensor + " is in read-only memory: use a writable tensor");
    }
    return tensor.segment();
  }
}
