package org.ep4j.engine.world;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;

/**
 * A part of an opening that each rank does by itself. No rank continues before all have done it: a
 * rank that failed tells the others, which would wait for it until the timeout.
 */
public final class AgreedStep {
  private AgreedStep() {}

  /**
   * Does the step; collective.
   *
   * @param step calls no collective: other ranks would take the text of a failure for its bytes
   * @param undo frees the result of this rank if another one has failed
   * @throws EngineUnavailableException naming another rank that failed; a rank that failed itself
   *     gets its own exception
   */
  public static <T> T run(Group group, Duration timeout, Supplier<T> step, Consumer<T> undo) {
    return run(problem -> agree(group, timeout, problem), step, undo);
  }

  /**
   * Does the step, with the ranks that {@code agree} reaches.
   *
   * @param agree tells the other ranks the problem of this rank, empty for none; collective, and
   *     throws if a rank has one
   */
  static <T> T run(Consumer<String> agree, Supplier<T> step, Consumer<T> undo) {
    T result;
    try {
      result = step.get();
    } catch (RuntimeException | Error e) { // also memory that runs out
      suppressing(e, () -> agree.accept(text(e)));
      throw e;
    }
    try {
      agree.accept("");
      return result;
    } catch (RuntimeException | Error e) {
      suppressing(e, () -> undo.accept(result));
      throw e;
    }
  }

  /** The failure of this rank as others read it; never empty, which would mean success. */
  public static String text(Throwable problem) {
    String message = problem.getMessage();
    return message == null || message.isEmpty() ? problem.toString() : message;
  }

  /** Does what must follow a failure; the exception that the caller gets remains the failure. */
  static void suppressing(Throwable failure, Runnable action) {
    try {
      action.run();
    } catch (RuntimeException | Error e) {
      failure.addSuppressed(e);
    }
  }

  private static void agree(Group group, Duration timeout, String problem) {
    byte[][] problems = group.allGather(problem.getBytes(StandardCharsets.UTF_8), timeout);
    for (int rank = 0; rank < problems.length; rank++) {
      if (problems[rank].length > 0) {
        throw new EngineUnavailableException(
            ErrorCode.RANK_OPEN_FAILED,
            "rank " + rank + ": " + new String(problems[rank], StandardCharsets.UTF_8));
      }
    }
  }
}
