package org.ep4j.cuda.engine;

import java.time.Duration;
import java.util.function.Supplier;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.memory.Participants;

/**
 * The steps that each rank does by itself while a buffer is opened. No rank continues before all
 * have done a step, so all receive the failure of one rank, with its purpose: the others would
 * otherwise wait for that rank until their deadline.
 */
final class OpeningSteps {
  private final Participants participants;
  private final Duration timeout;

  /** A rank that rejoins: the ranks that have the buffer are not in its steps. */
  private final boolean alone;

  OpeningSteps(Participants participants, Duration timeout) {
    this.participants = participants;
    this.timeout = timeout;
    alone = participants.isNew(participants.rank());
  }

  /**
   * Does a step; collective.
   *
   * @param what the step prepares, for the message if the driver fails
   */
  <T> T together(String what, Supplier<T> step) {
    Supplier<T> explained = () -> explained(what, step);
    return alone
        ? explained.get()
        : BackendWorld.together(participants, timeout, "a buffer cannot be opened", explained);
  }

  private <T> T explained(String what, Supplier<T> step) {
    try {
      return step.get();
    } catch (CudaException e) {
      String text =
          "rank " + participants.rank() + " cannot prepare " + what + ": " + e.getMessage();
      throw e.isOutOfMemory()
          ? new Ep4jException(
              ErrorCode.GPU_OUT_OF_MEMORY,
              text
                  + ": lower highThroughput.maxTokens, maxReceiveRows or lowLatency.maxTokens, or"
                  + " end the programs that hold memory of this GPU (nvidia-smi)",
              e)
          : new Ep4jException(ErrorCode.CUDA_CALL_FAILED, text, e);
    }
  }
}
