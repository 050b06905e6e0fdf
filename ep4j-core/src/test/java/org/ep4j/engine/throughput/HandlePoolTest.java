package org.ep4j.engine.throughput;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.junit.jupiter.api.Test;

/** Handles of a buffer: when they are reused, and what callers may do with them. */
class HandlePoolTest {
  private static final int KEPT = 6;

  private final List<Handle> made = new ArrayList<>();
  private final HandlePool<Handle> pool = new HandlePool<>(KEPT, this::make);

  private static final class Handle extends PooledHandle {
    Handle(HandlePool<?> pool) {
      super(pool);
    }

    @Override
    public void awaitCounts() {
      // There are none.
    }

    @Override
    public long neededRows() {
      return 0;
    }

    @Override
    public long receivedRows() {
      return 0;
    }
  }

  private Handle make(HandlePool<Handle> of) {
    Handle handle = new Handle(of);
    made.add(handle);
    return handle;
  }

  @Test
  void aClosedHandleRestsBehindFourOthers() {
    Handle first = pool.take();
    first.close();
    for (int i = 0; i < 4; i++) {
      Handle other = pool.take();
      assertThat(other).isNotSameAs(first);
      other.close();
    }
    assertThat(pool.take()).isSameAs(first);
  }

  @Test
  void handlesAreReusedInTheOrderOfTheirReturn() {
    ArrayDeque<Handle> closed = new ArrayDeque<>();
    for (int i = 0; i < KEPT; i++) {
      closed.add(pool.take());
    }
    closed.forEach(Handle::close);
    assertThat(pool.take()).isSameAs(closed.remove());
    assertThat(pool.take()).isSameAs(closed.remove());
  }

  @Test
  void noMoreThanTheKeptHandlesRest() {
    List<Handle> open = new ArrayList<>();
    for (int i = 0; i < 2 * KEPT; i++) {
      open.add(pool.take());
    }
    open.forEach(Handle::close);
    assertThat(pool.take()).isSameAs(open.get(KEPT));
  }

  @Test
  void aHandleInUseReturnsAfterItsLastUse() {
    Handle used = pool.take();
    used.acquire();
    used.acquire();
    used.close();
    used.release();
    for (int i = 0; i < KEPT; i++) {
      Handle other = pool.take();
      assertThat(other).isNotSameAs(used);
      other.close();
    }
    used.release();
    assertThat(Stream.generate(pool::take).peek(Handle::close).limit(2 * KEPT)).contains(used);
  }

  @Test
  void theHandleOfAnOutdatedDispatchThatNobodyAskedForIsReused() {
    for (int i = 0; i < 10 * KEPT; i++) {
      pool.dispatched(pool.take());
    }
    assertThat(made).hasSizeLessThanOrEqualTo(KEPT);
  }

  @Test
  void theHandleOfAnOutdatedDispatchThatACallerHasStaysOpen() {
    Handle handedOut = pool.take();
    pool.dispatched(handedOut);
    handedOut.handOut();
    pool.dispatched(pool.take());
    assertThat(pool.require(handedOut, 0)).isSameAs(handedOut);
  }

  @Test
  void handlesOfOthersClosedOnesAndThoseBeforeAResetAreRefused() {
    Handle handle = pool.take();
    HandlePool<Handle> other = new HandlePool<>(KEPT, Handle::new);
    refused(ErrorCode.HANDLE_OF_OTHER_BUFFER, other, handle, 0);
    refused(ErrorCode.HANDLE_STALE, pool, handle, 1);
    handle.close();
    refused(ErrorCode.HANDLE_CLOSED, pool, handle, 1);
    assertThatThrownBy(handle::acquire).hasMessageStartingWith(ErrorCode.HANDLE_CLOSED.id());
  }

  private static void refused(
      ErrorCode code, HandlePool<Handle> of, Handle handle, int generation) {
    assertThatThrownBy(() -> of.require(handle, generation))
        .isInstanceOf(IllegalUseException.class)
        .hasMessageStartingWith(code.id());
  }
}
