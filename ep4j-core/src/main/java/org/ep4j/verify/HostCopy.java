package org.ep4j.verify;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;
import org.ep4j.Tensor;

/**
 * The bytes of tensors that may lie on a device, for code that works on them one by one: a device's
 * memory is copied once, in one piece, however small the steps are.
 */
public final class HostCopy {
  private HostCopy() {}

  /**
   * Has all bytes of a tensor written: in place on the host; for a device into memory that is zero
   * at first and then copied there.
   */
  public static void write(Tensor tensor, Consumer<MemorySegment> writer) {
    if (!tensor.onDevice()) {
      writer.accept(tensor.segment());
      return;
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment bytes = arena.allocate(Math.max(1, tensor.byteSize()), 64);
      writer.accept(bytes.asSlice(0, tensor.byteSize()));
      tensor.copyFrom(bytes);
    }
  }

  /** First byte in which two tensors of one size differ, -1 if there is none. */
  public static long mismatch(Tensor one, Tensor other) {
    try (Arena arena = Arena.ofConfined()) {
      return one.onHost(arena).segment().mismatch(other.onHost(arena).segment());
    }
  }
}
