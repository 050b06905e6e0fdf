package org.ep4j.cuda.backend;

import java.util.Collections;
import java.util.EnumSet;
import java.util.Set;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/**
 * The failure of a step of one rank, as all ranks report it. A failure of the driver or of a
 * library has the same code and text on all of them; others keep their exception on the rank that
 * failed.
 */
final class StepFailure {
  private static final Set<ErrorCode> OUT_OF_MEMORY =
      Collections.unmodifiableSet(
          EnumSet.of(ErrorCode.GPU_OUT_OF_MEMORY, ErrorCode.NVSHMEM_OUT_OF_MEMORY));

  /** Codes that all ranks report. */
  private static final Set<ErrorCode> SHARED =
      Collections.unmodifiableSet(
          EnumSet.of(
              ErrorCode.CUDA_CALL_FAILED,
              ErrorCode.GPU_OUT_OF_MEMORY,
              ErrorCode.NCCL_CALL_FAILED,
              ErrorCode.NVSHMEM_CALL_FAILED,
              ErrorCode.NVSHMEM_OUT_OF_MEMORY));

  private static final String LOWER =
      ": lower highThroughput.maxTokens, maxReceiveRows or lowLatency.maxTokens, or end the"
          + " programs that hold the memory (nvidia-smi shows those of a GPU)";

  private final String text;
  private final Throwable problem;

  /**
   * @param what what the step prepares
   */
  StepFailure(String what, Throwable problem) {
    this.problem = problem;
    String start = what + " cannot be prepared: ";
    ErrorCode code = codeOf(problem);
    String message = problem.getMessage();
    if (message == null || message.isEmpty()) {
      text = start + problem;
    } else if (code != null && problem instanceof Ep4jException error) {
      String said = message.substring(error.errorCode().message("").length());
      text = code.message(start + said + (OUT_OF_MEMORY.contains(code) ? LOWER : ""));
    } else {
      text = start + message;
    }
  }

  /** The code that all ranks report; null if the other ranks report that one failed. */
  private static @Nullable ErrorCode codeOf(Throwable problem) {
    if (problem instanceof CudaException error && error.isOutOfMemory()) {
      return ErrorCode.GPU_OUT_OF_MEMORY;
    }
    return problem instanceof Ep4jException error && SHARED.contains(error.errorCode())
        ? error.errorCode()
        : null;
  }

  /** What the rank tells the others; never empty. */
  String text() {
    return text;
  }

  /** The exception of the rank that failed. */
  RuntimeException onRank(int rank) {
    ErrorCode code = codeOf(problem);
    if (code != null) {
      return new Ep4jException(code, of(rank, code, text), problem);
    }
    if (problem instanceof Error error) {
      throw error;
    }
    return (RuntimeException) problem;
  }

  /** The exception of another rank. */
  static EngineUnavailableException onOthers(int rank, String text) {
    for (ErrorCode code : SHARED) {
      if (text.startsWith(code.message(""))) {
        return new EngineUnavailableException(code, of(rank, code, text));
      }
    }
    return new EngineUnavailableException(ErrorCode.RANK_OPEN_FAILED, "rank " + rank + ": " + text);
  }

  private static String of(int rank, ErrorCode code, String text) {
    return "rank " + rank + ": " + text.substring(code.message("").length());
  }

  /** Whether an exchange has told the failure to all ranks. */
  static boolean isTold(Throwable problem) {
    return problem instanceof EngineUnavailableException e
        && (e.errorCode() == ErrorCode.RANK_OPEN_FAILED || SHARED.contains(e.errorCode()));
  }
}
