package org.ep4j.cuda.driver;

/**
 * The threads whose calls a capture restricts: calls that would wait for recorded work are forbidden.
 */
public enum CaptureMode {
  /** Calls of all threads. */
  GLOBAL,
  /** Calls of the capturing thread. Use this mode where several ranks share a process. */
  THREAD_LOCAL,
  /** None. */
  RELAXED
}
