package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.rdma.ucx.bindings.NativeBytes;
import org.ep4j.rdma.ucx.bindings.UcpSetUp;
import org.ep4j.rdma.ucx.bindings.UcpStatus;

/** Memory that is registered with UCX, and optionally allocated by UCX. */
final class UcxMemory implements AutoCloseable {
  private final long context;
  private final long handle;
  private final long address;
  private boolean closed;

  UcxMemory(long context, long handle, long address) {
    this.context = context;
    this.handle = handle;
    this.address = address;
  }

  long handle() {
    return handle;
  }

  long address() {
    return address;
  }

  /** The remote key of this memory. */
  byte[] packedKey() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG, 2);
      UcpStatus.check(
          UcpSetUp.packKey(context, handle, out.address(), out.address() + Long.BYTES),
          "ucp_rkey_pack");
      long buffer = out.getAtIndex(ValueLayout.JAVA_LONG, 0);
      long bytes = out.getAtIndex(ValueLayout.JAVA_LONG, 1);
      byte[] key = NativeBytes.at(buffer, bytes, Arena.global()).toArray(ValueLayout.JAVA_BYTE);
      UcpSetUp.releaseKeyBuffer(buffer);
      return key;
    }
  }

  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      byte ignored = UcpSetUp.unmapMemory(context, handle);
    }
  }
}
