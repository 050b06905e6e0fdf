package org.ep4j.engine.host.context;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * Closed handles of one buffer, first in, first out. A handle waits behind at least {@link #REST}
 * others before reuse, so that a caller which still uses it gets an error instead of the routes of
 * another dispatch.
 *
 * <p>Any thread may return a handle; one thread at a time takes one. Handles beyond the capacity
 * are left to the garbage collector.
 */
public final class HandlePool {
  private static final int REST = 4;
  private static final int CAPACITY = 64;

  private final int localExperts;
  private final int ranks;
  private final AtomicReferenceArray<HostHandle> resting = new AtomicReferenceArray<>(CAPACITY);
  private final AtomicLong given = new AtomicLong();
  private long taken;

  public HandlePool(int localExperts, int ranks) {
    this.localExperts = localExperts;
    this.ranks = ranks;
  }

  /** An open handle. */
  public HostHandle take() {
    long available = given.get() - taken;
    if (available > CAPACITY) {
      taken += available - CAPACITY;
      available = CAPACITY;
    }
    if (available > REST) {
      HostHandle handle = resting.getAndSet((int) (taken++ % CAPACITY), null);
      // Null if a thread has reserved this entry but not filled it yet, or two threads shared an
      // entry.
      if (handle != null) {
        handle.open();
        return handle;
      }
    }
    return new HostHandle(this, localExperts, ranks);
  }

  void give(HostHandle handle) {
    resting.set((int) (given.getAndIncrement() % CAPACITY), handle);
  }
}
