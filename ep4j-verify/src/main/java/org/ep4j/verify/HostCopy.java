package org.ep4j.verify;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;
import org.ep4j.tensor.Tensor;

/**
 * The bytes of tensors that may be on a device, for code that accesses single bytes: copies the
 * device memory once, in one piece.
 */
public final class HostCopy {
  private HostCopy() {}

  /**
   * Lets the caller write all bytes of a tensor: in place on the host; for a device in zeroed host
   * memory that is then copied to the device.
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

  /** First byte in which two tensors of equal size differ, -1 if there is none. */
  public static long mismatch(Tensor one, Tensor other) {
    try (Arena arena = Arena.ofConfined()) {
      return one.onHost(arena).segment().mismatch(other.onHost(arena).segment());
    }
  }
}
