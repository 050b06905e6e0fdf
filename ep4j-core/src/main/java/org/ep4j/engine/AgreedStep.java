package org.ep4j.engine;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.ep4j.EngineUnavailableException;
import org.ep4j.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;

/**
 * A part of an opening that each rank does by itself. No rank continues before all have done it: a
 * rank that failed tells the others, which would wait for it until the timeout.
 */
public final class AgreedStep {
  private AgreedStep() {}

  /**
   * Does the step; collective.
   *
   * @param undo frees the result of this rank if another one has failed
   * @throws EngineUnavailableException naming another rank that failed; a rank that failed itself
   *     gets its own exception
   */
  public static <T> T run(Group group, Duration timeout, Supplier<T> step, Consumer<T> undo) {
    T result;
    try {
      result = step.get();
    } catch (RuntimeException | Error e) { // also memory that runs out
      tell(group, timeout, e);
      throw e;
    }
    boolean agreed = false;
    try {
      byte[][] problems = group.allGather(new byte[0], timeout);
      for (int rank = 0; rank < problems.length; rank++) {
        if (problems[rank].length > 0) {
          throw new EngineUnavailableException(
              ErrorCode.RANK_OPEN_FAILED,
              "rank " + rank + ": " + new String(problems[rank], StandardCharsets.UTF_8));
        }
      }
      agreed = true;
      return result;
    } finally {
      if (!agreed) {
        undo.accept(result);
      }
    }
  }

  private static void tell(Group group, Duration timeout, Throwable problem) {
    String text = problem.getMessage() == null ? problem.toString() : problem.getMessage();
    try {
      byte[][] ignored = group.allGather(text.getBytes(StandardCharsets.UTF_8), timeout);
    } catch (GroupException e) {
      problem.addSuppressed(e);
    }
  }
}
