package org.ep4j.moe.gpu;

/** Work that was recorded once and is enqueued any number of times. One thread at a time. */
public interface CapturedWork extends AutoCloseable {
  /** Enqueues the work in the main queue. */
  void enqueue();

  /** The work that was enqueued has ended. */
  @Override
  void close();
}
