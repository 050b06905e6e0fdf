package org.ep4j.tensor;

import java.lang.foreign.MemorySegment;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.ShortBuffer;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/** The memory of buffers from position to limit. Refuses a foreign byte order. */
final class BufferMemory {
  private BufferMemory() {}

  static MemorySegment of(ByteBuffer buffer, DType dtype) {
    return dtype.bits() <= Byte.SIZE
        ? MemorySegment.ofBuffer(buffer)
        : of(buffer, buffer.order(), "call buffer.order(ByteOrder.nativeOrder())");
  }

  static MemorySegment of(ShortBuffer buffer, DType dtype) {
    if (dtype != DType.BF16 && dtype != DType.FP16) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_DTYPE,
          "dtype",
          dtype.name(),
          "BF16 or FP16 for a ShortBuffer",
          "pass a ByteBuffer for other types");
    }
    return of(buffer, buffer.order());
  }

  static MemorySegment of(Buffer buffer, ByteOrder order) {
    return of(
        buffer, order, "call order(ByteOrder.nativeOrder()) on the ByteBuffer before the view");
  }

  private static MemorySegment of(Buffer buffer, ByteOrder order, String remedy) {
    if (order != ByteOrder.nativeOrder()) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_BYTE_ORDER,
          "buffer",
          order.toString(),
          ByteOrder.nativeOrder() + ", the byte order of this machine",
          remedy);
    }
    return MemorySegment.ofBuffer(buffer);
  }
}
