package org.ep4j.cuda.driver;

/**
 * Which calls a capture forbids meanwhile: those that would wait for work that is only recorded.
 */
public enum CaptureMode {
  /** Calls of all threads. */
  GLOBAL,
  /** Calls of the capturing thread: the choice where several ranks share a process. */
  THREAD_LOCAL,
  /** None. */
  RELAXED
}
