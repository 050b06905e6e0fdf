package org.ep4j.nccl;

import java.util.Locale;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/** A call of NCCL failed. */
public final class NcclException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  NcclException(ErrorCode code, String text) {
    super(code, text);
  }

  /** Throws unless {@code result} is success. */
  static void check(int result, NcclFunction function, long comm) {
    if (result != NcclLayouts.SUCCESS) {
      throw of(result, function, comm);
    }
  }

  /**
   * The error of a call that allocates. NCCL has no code for missing memory: its text names it, or
   * the device has less than is wanted.
   *
   * @param bytes what the call allocates
   */
  Ep4jException ofAllocation(CudaDevice device, long bytes) {
    boolean missing =
        text().toLowerCase(Locale.ROOT).contains("out of memory") || device.lacks(bytes);
    return new Ep4jException(
        missing ? ErrorCode.GPU_OUT_OF_MEMORY : errorCode(),
        text() + "; " + device.wants(bytes),
        this);
  }

  /** An error with the library's description. */
  static NcclException of(int result, NcclFunction function, long comm) {
    String last = NcclCalls.lastError(comm);
    return new NcclException(
        ErrorCode.NCCL_CALL_FAILED,
        "%s failed: %s (%d)%s; set NCCL_DEBUG=WARN for details"
            .formatted(
                function.symbol(),
                NcclCalls.errorText(result),
                result,
                last.isEmpty() ? "" : ": " + last));
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
