package org.ep4j.engine.host.lowlatency;

import java.lang.foreign.ValueLayout;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.Tensor;

/**
 * Access to callers' tensors in low-latency operations. Native tensors are accessed by address: an
 * asynchronous operation runs on another thread, and a confined arena belongs to the thread of the
 * caller.
 */
final class LowLatencyTensors {
  private LowLatencyTensors() {}

  /** Copies bytes of {@code tensor} to {@code target}. */
  static void copy(Tensor tensor, long offset, long target, long bytes) {
    if (tensor.nativeHost()) {
      NativeMemory.copy(tensor.address() + offset, target, bytes);
    } else {
      NativeMemory.copy(tensor.segment(), offset, target, bytes);
    }
  }

  /** Adds to an element of an INT32 tensor. */
  static void addInt(Tensor tensor, int index, int value) {
    if (tensor.nativeHost()) {
      long address = tensor.address() + 4L * index;
      NativeMemory.putInt(address, NativeMemory.getInt(address) + value);
    } else {
      int sum = tensor.getInt(index) + value;
      tensor.segment().set(ValueLayout.JAVA_INT_UNALIGNED, 4L * index, sum);
    }
  }

  /** Adds to an element of an INT64 tensor. */
  static void addLong(Tensor tensor, int index, long value) {
    if (tensor.nativeHost()) {
      long address = tensor.address() + 8L * index;
      NativeMemory.putLong(address, NativeMemory.getLong(address) + value);
    } else {
      long sum = tensor.getLong(index) + value;
      tensor.segment().set(ValueLayout.JAVA_LONG_UNALIGNED, 8L * index, sum);
    }
  }
}
