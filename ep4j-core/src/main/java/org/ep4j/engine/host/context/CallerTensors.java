package org.ep4j.engine.host.context;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Access to the tensors of callers. Native tensors are accessed by address: an asynchronous
 * operation runs on another thread, and a confined arena belongs to the thread of the caller.
 */
public final class CallerTensors {
  private CallerTensors() {}

  /** Copies bytes of {@code tensor} to {@code target}. */
  public static void copy(Tensor tensor, long offset, long target, long bytes) {
    if (tensor.nativeHost()) {
      NativeMemory.copy(tensor.address() + offset, target, bytes);
    } else {
      NativeMemory.copy(tensor.segment(), offset, target, bytes);
    }
  }

  /** An element of a tensor of ids, INT64 or INT32. */
  public static long id(Tensor ids, int index) {
    boolean wide = ids.dtype() == DType.INT64;
    if (ids.nativeHost()) {
      return wide
          ? NativeMemory.getLong(ids.address() + 8L * index)
          : NativeMemory.getInt(ids.address() + 4L * index);
    }
    return wide ? ids.getLong(index) : ids.getInt(index);
  }

  /** The number in an FP32 tensor [1]. */
  public static float scalar(Tensor tensor) {
    return tensor.nativeHost() ? NativeMemory.getFloat(tensor.address()) : tensor.getFloat(0);
  }

  /** The first {@code count} elements of an FP32 tensor. */
  public static void floats(Tensor tensor, float[] target, int count) {
    if (tensor.nativeHost()) {
      NativeMemory.copy(tensor.address(), target, count);
    } else {
      MemorySegment.copy(tensor.segment(), ValueLayout.JAVA_FLOAT_UNALIGNED, 0, target, 0, count);
    }
  }

  /** Adds to an element of an INT32 tensor. */
  public static void addInt(Tensor tensor, int index, int value) {
    if (tensor.nativeHost()) {
      long address = tensor.address() + 4L * index;
      NativeMemory.putInt(address, NativeMemory.getInt(address) + value);
    } else {
      int sum = tensor.getInt(index) + value;
      tensor.segment().set(ValueLayout.JAVA_INT_UNALIGNED, 4L * index, sum);
    }
  }

  /** Adds to an element of an INT64 tensor. */
  public static void addLong(Tensor tensor, int index, long value) {
    if (tensor.nativeHost()) {
      long address = tensor.address() + 8L * index;
      NativeMemory.putLong(address, NativeMemory.getLong(address) + value);
    } else {
      long sum = tensor.getLong(index) + value;
      tensor.segment().set(ValueLayout.JAVA_LONG_UNALIGNED, 8L * index, sum);
    }
  }
}
