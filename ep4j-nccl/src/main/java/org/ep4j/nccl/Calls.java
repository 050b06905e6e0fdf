package org.ep4j.nccl;

/**
 * Calls of one thread into a library, until another thread stops them and waits for the last call to return.
 *
 * <p>Each thread writes its own word and then reads the other's, all volatile: a call that begins concurrently with stop() either sees the stop or is seen by it.
 */
final class Calls {
  private volatile boolean inside;
  private volatile boolean stopped;

  /** Whether a call may begin; if true, {@link #end} must follow. Called by the calling thread. */
  boolean begin() {
    inside = true;
    if (stopped) {
      inside = false;
      return false;
    }
    return true;
  }

  /** Marks that a call has returned or thrown. */
  void end() {
    inside = false;
  }

  /** Forbids further calls. */
  void stop() {
    stopped = true;
  }

  /** Whether a call may be running; once false after {@link #stop}, it stays false. */
  boolean inside() {
    return inside;
  }
}
