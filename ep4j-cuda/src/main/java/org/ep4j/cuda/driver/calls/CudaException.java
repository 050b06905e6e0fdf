package org.ep4j.cuda.driver.calls;

import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/** A call of the driver, NVRTC or nvJitLink failed. */
public final class CudaException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  /** Name of the native function. */
  private final String call;

  /** Result code of the call. */
  private final int code;

  /**
   * @param call name of the native function
   * @param code result code of the call
   * @param text the library's description of the code, and what to do
   */
  public CudaException(String call, int code, String text) {
    super(ErrorCode.CUDA_CALL_FAILED, call + " failed: " + text);
    this.call = call;
    this.code = code;
  }

  /** Name of the native function. */
  public String call() {
    return call;
  }

  /** Result code of the call: a CUresult, nvrtcResult or nvJitLinkResult. */
  public int code() {
    return code;
  }

  /** Throws if {@code result} is not success. */
  public static void check(int result, DriverFunction function) {
    if (result != DriverConstants.CUDA_SUCCESS) {
      throw of(result, function);
    }
  }

  /** An error of the driver. */
  static CudaException of(int result, DriverFunction function) {
    return new CudaException(function.symbol(), result, describe(result));
  }

  /** An error of the driver with additional text. */
  public static CudaException of(int result, DriverFunction function, String more) {
    return new CudaException(function.symbol(), result, describe(result) + "; " + more);
  }

  /** Whether the device or the system has no memory left. */
  public boolean isOutOfMemory() {
    return code == DriverConstants.CUDA_ERROR_OUT_OF_MEMORY;
  }

  /** Name, number and text of a driver result, and what to do about a usual one. */
  static String describe(int result) {
    String text = CudaResults.name(result) + " (" + result + ", " + CudaResults.text(result) + ")";
    return result == DriverConstants.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        ? text
            + "; the call is impossible while a graph is captured: run the same operations before"
            + " the capture"
        : text;
  }

  /** Wraps checked throwables of a downcall, which only the JVM can throw; rethrows errors. */
  public static AssertionError unexpected(Throwable thrown) {
    if (thrown instanceof RuntimeException exception) {
      throw exception;
    }
    if (thrown instanceof Error error) {
      throw error;
    }
    return new AssertionError("a downcall throws nothing checked", thrown);
  }
}
