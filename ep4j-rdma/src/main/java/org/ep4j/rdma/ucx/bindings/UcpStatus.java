package org.ep4j.rdma.ucx.bindings;

import java.lang.foreign.MemorySegment;
import org.ep4j.error.ErrorCode;
import org.ep4j.wire.WireException;

/** Status codes of UCX. */
public final class UcpStatus {
  private UcpStatus() {}

  /** Throws unless the call succeeded. */
  public static void check(byte status, String call) {
    if (status < 0) {
      throw new WireException(ErrorCode.UCX_CALL_FAILED, call + ": " + text(status));
    }
  }

  /** Whether the result of a call is a failure, and not a request or 0. */
  public static boolean isError(long request) {
    return Long.compareUnsigned(request, UcpConstants.UCS_ERR_LAST) >= 0;
  }

  /** Text of a status from UCX. */
  @SuppressWarnings("restricted") // a text of the library with a terminating zero
  public static String text(int status) {
    long address = UcpSetUp.statusText((byte) status);
    return MemorySegment.ofAddress(address).reinterpret(256).getString(0);
  }

  /** An error for what the linker throws only if a binding is wrong. */
  static RuntimeException unexpected(Throwable t) {
    return new IllegalStateException("a function of UCX cannot be called", t);
  }
}
