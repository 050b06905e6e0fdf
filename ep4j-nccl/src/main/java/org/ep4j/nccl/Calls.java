package org.ep4j.nccl;

/**
 * Calls of one thread into a library, until another thread says that there shall be no more and
 * waits for the last one to return.
 *
 * <p>Either thread writes its word and then reads the other's, all volatile: a call that begins
 * while the other stops sees that, or is seen.
 */
final class Calls {
  private volatile boolean inside;
  private volatile boolean stopped;

  /** Whether a call may begin; if so, {@link #end} follows it. By the thread that calls. */
  boolean begin() {
    inside = true;
    if (stopped) {
      inside = false;
      return false;
    }
    return true;
  }

  /** A call has returned, or thrown. */
  void end() {
    inside = false;
  }

  /** No call begins any more. */
  void stop() {
    stopped = true;
  }

  /** Whether a call may be under way; once false after {@link #stop}, none is any more. */
  boolean inside() {
    return inside;
  }
}
