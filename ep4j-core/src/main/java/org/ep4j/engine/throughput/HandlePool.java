package org.ep4j.engine.throughput;

import java.util.ArrayDeque;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import org.ep4j.DispatchHandle;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.jspecify.annotations.Nullable;

/**
 * The handles of one buffer. Closed handles are reused first in, first out, and only behind {@link
 * #REST} others, so that a caller that still uses one gets an error instead of the routes of
 * another dispatch.
 *
 * <p>Any thread may return a handle: it pushes the handle onto a list with compare-and-set. The
 * thread that runs operations, one at a time, takes the whole list at once; all else belongs to it.
 *
 * @param <H> the engine's handles; the pool makes all handles that it holds
 */
public final class HandlePool<H extends PooledHandle> {
  private static final int REST = 4;

  private final Function<HandlePool<H>, H> maker;
  private final int kept;

  /** The handle that was returned last, linked to those before it. */
  private final AtomicReference<@Nullable PooledHandle> returned = new AtomicReference<>();

  /** Handles that this pool has collected, in the order of their return. */
  private final ArrayDeque<H> resting = new ArrayDeque<>();

  /** The handle of the last dispatch. */
  private @Nullable H last;

  /**
   * An empty pool.
   *
   * @param kept largest number of closed handles; others are left to the garbage collector
   * @param maker makes closed handles of the pool that it gets
   */
  public HandlePool(int kept, Function<HandlePool<H>, H> maker) {
    this.kept = kept;
    this.maker = maker;
  }

  /** An open handle. */
  public H take() {
    collect();
    H handle = resting.size() > REST ? resting.remove() : maker.apply(this);
    handle.open();
    return handle;
  }

  /**
   * The results of the dispatch before that of {@code handle} are outdated: its handle is closed if
   * no caller has it, because none can get it any more.
   */
  public void dispatched(H handle) {
    H before = last;
    if (before != null && before != handle && !before.isHandedOut()) {
      before.close();
    }
    last = handle;
  }

  /**
   * The handle that a caller passes to an operation.
   *
   * @param generation number of resets of the buffer
   */
  public H require(DispatchHandle given, int generation) {
    if (!(given instanceof PooledHandle handle) || !handle.isOf(this)) {
      throw new IllegalUseException(
          ErrorCode.HANDLE_OF_OTHER_BUFFER,
          "the dispatch handle belongs to another buffer: use it with the buffer that made it");
    }
    handle.requireOpen();
    if (handle.generation != generation) {
      throw new IllegalUseException(
          ErrorCode.HANDLE_STALE,
          "the dispatch handle is older than the last reset(), which discarded its rows: dispatch"
              + " again");
    }
    return own(handle);
  }

  void give(PooledHandle handle) {
    PooledHandle newest;
    do {
      newest = returned.get();
      handle.before = newest;
    } while (!returned.compareAndSet(newest, handle));
  }

  /** Appends the returned handles to those that rest, oldest first. */
  private void collect() {
    PooledHandle newest = returned.getAndSet(null);
    PooledHandle oldest = null;
    while (newest != null) {
      PooledHandle next = newest.before;
      newest.before = oldest;
      oldest = newest;
      newest = next;
    }
    while (oldest != null) {
      resting.add(own(oldest));
      PooledHandle after = oldest.before;
      oldest.before = null;
      oldest = after;
    }
    while (resting.size() > kept) {
      resting.remove();
    }
  }

  @SuppressWarnings("unchecked") // only the maker makes handles of this pool
  private H own(PooledHandle handle) {
    return (H) handle;
  }
}
