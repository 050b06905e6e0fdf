package org.ep4j.cuda.driver;

import org.ep4j.Ep4jException;

/** A call of the driver, of NVRTC or of nvJitLink failed. */
public final class CudaException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  /** Name of the native function. */
  private final String call;

  /** What it returned. */
  private final int code;

  /**
   * @param call name of the native function
   * @param code what it returned
   * @param text the library's words for it, and what helps
   */
  CudaException(String call, int code, String text) {
    super(call + " failed: " + text);
    this.call = call;
    this.code = code;
  }

  /** Name of the native function. */
  public String call() {
    return call;
  }

  /** What it returned: a CUresult, nvrtcResult or nvJitLinkResult. */
  public int code() {
    return code;
  }

  /** Throws unless {@code result} is success. */
  static void check(int result, DriverFunction function) {
    if (result != DriverConstants.CUDA_SUCCESS) {
      throw of(result, function);
    }
  }

  /** An error of the driver. */
  static CudaException of(int result, DriverFunction function) {
    return new CudaException(function.symbol(), result, describe(result));
  }

  /** An error of the driver with more to say. */
  static CudaException of(int result, DriverFunction function, String more) {
    return new CudaException(function.symbol(), result, describe(result) + "; " + more);
  }

  /** Name, number and text of a result of the driver. */
  static String describe(int result) {
    return CudaResults.name(result) + " (" + result + ", " + CudaResults.text(result) + ")";
  }

  /** For what only the JVM can throw at a downcall: errors go on as they are. */
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
