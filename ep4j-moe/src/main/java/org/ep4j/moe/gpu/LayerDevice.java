package org.ep4j.moe.gpu;

import java.lang.foreign.MemorySegment;

/** A GPU as a layer uses it. It owns what it has allocated. One thread at a time. */
public interface LayerDevice extends AutoCloseable {
  /** Number of the device in this process. */
  int ordinal();

  /** At least one byte, at a multiple of 256, until {@link #close}. */
  long allocate(long bytes);

  /** Copies from the host, and waits. */
  void write(long address, MemorySegment source);

  /** Makes the device that of the calling thread; before calls of its queues. */
  void enter();

  /** Router, dispatch, experts and combine. */
  WorkQueue main();

  /** The shared expert, beside the main queue. */
  WorkQueue side();

  /**
   * Records what {@code calls} enqueues in the main queue, and in the side queue after it waits for
   * the main one and before the main one waits for it. Nothing runs. Calls do not wait; no work is
   * under way, and all of it has run once, so that nothing is allocated or loaded.
   */
  CapturedWork capture(Runnable calls);

  @Override
  void close();
}
