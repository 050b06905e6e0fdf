package org.ep4j.cuda.backend;

import java.util.Collections;
import java.util.EnumSet;
import java.util.Set;
import java.util.function.Supplier;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.GroupException;
import org.jspecify.annotations.Nullable;

/**
 * A call of the driver or of a library failed on a rank: the message names the rank, what the call
 * was for, and what to lower if memory is missing. All ranks of a common step report it with the
 * same code and text.
 */
public final class StepFailure extends Ep4jException {
  private static final long serialVersionUID = 1L;

  private static final Set<ErrorCode> OUT_OF_MEMORY =
      Collections.unmodifiableSet(
          EnumSet.of(ErrorCode.GPU_OUT_OF_MEMORY, ErrorCode.NVSHMEM_OUT_OF_MEMORY));

  private static final Set<ErrorCode> OF_LIBRARIES =
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

  /** The message without the rank. */
  private final String withoutRank;

  private StepFailure(ErrorCode code, int rank, String text, Ep4jException cause) {
    super(code, "rank " + rank + ": " + text, cause);
    this.withoutRank = text;
  }

  /**
   * Does what only this rank does.
   *
   * @param what what it prepares
   * @throws StepFailure if a call of the driver or of a library fails
   */
  public static <T> T explained(int rank, String what, Supplier<T> step) {
    try {
      return step.get();
    } catch (Ep4jException e) {
      StepFailure failure = of(rank, what, e);
      throw failure == null ? e : failure;
    }
  }

  /** Null if other code failed, or an exchange with other ranks. */
  private static @Nullable StepFailure of(int rank, String what, Ep4jException problem) {
    if (problem instanceof StepFailure failure) {
      return failure; // its purpose is closer to the call
    }
    boolean missing = problem instanceof CudaException error && error.isOutOfMemory();
    ErrorCode code = missing ? ErrorCode.GPU_OUT_OF_MEMORY : problem.errorCode();
    if (isTold(problem) || !OF_LIBRARIES.contains(code)) {
      return null;
    }
    String text = cannot(what, problem.text()) + (OUT_OF_MEMORY.contains(code) ? LOWER : "");
    return new StepFailure(code, rank, text, problem);
  }

  private static String cannot(String what, String reason) {
    return what + " cannot be prepared: " + reason;
  }

  /**
   * What a rank tells the others of a step that failed, for {@link #onOthers}; never empty.
   *
   * @param what what the step prepares
   */
  static String told(String what, Throwable problem) {
    if (problem instanceof StepFailure failure) {
      return failure.errorCode().message(failure.withoutRank);
    }
    String message = problem.getMessage();
    return cannot(what, message == null || message.isEmpty() ? problem.toString() : message);
  }

  /** The exception of the other ranks. */
  static EngineUnavailableException onOthers(int rank, String told) {
    for (ErrorCode code : OF_LIBRARIES) {
      String start = code.message("");
      if (told.startsWith(start)) {
        return new EngineUnavailableException(
            code, "rank " + rank + ": " + told.substring(start.length()));
      }
    }
    return new EngineUnavailableException(ErrorCode.RANK_OPEN_FAILED, "rank " + rank + ": " + told);
  }

  /** Whether an exchange has failed on all ranks: they exchange nothing more. */
  static boolean isTold(Throwable problem) {
    return problem instanceof GroupException
        || (problem instanceof EngineUnavailableException e
            && (e.errorCode() == ErrorCode.RANK_OPEN_FAILED
                || OF_LIBRARIES.contains(e.errorCode())));
  }
}
