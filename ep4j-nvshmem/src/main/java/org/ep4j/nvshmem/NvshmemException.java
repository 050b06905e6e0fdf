package org.ep4j.nvshmem;

import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/** A call of NVSHMEM failed. */
public final class NvshmemException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  NvshmemException(ErrorCode code, String text) {
    super(code, text);
  }

  /** Throws unless {@code status} is success. */
  static void check(int status, NvshmemFunction function) {
    if (status != 0) {
      throw new NvshmemException(
          ErrorCode.NVSHMEM_CALL_FAILED,
          function.symbol()
              + " failed with status "
              + status
              + "; set NVSHMEM_DEBUG=WARN for details, and NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME to"
              + " the interface between the hosts");
    }
  }

  /** Wraps checked throwables of a downcall, which only the JVM can throw; rethrows errors. */
  static AssertionError unexpected(Throwable thrown) {
    if (thrown instanceof RuntimeException exception) {
      throw exception;
    }
    if (thrown instanceof Error error) {
      throw error;
    }
    return new AssertionError("a downcall throws nothing checked", thrown);
  }
}
