package org.ep4j.wire;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/**
 * Waits on a wire with deadlines, for callers without other work. Each call polls one progress
 * context; the thread that drives it makes the call. An interrupt of the thread ends a wait with a
 * {@link WireException} of the code {@link ErrorCode#GROUP_INTERRUPTED}.
 */
public final class WireWait {
  /**
   * Polls between reads of the clock, and idle polls between yields of the core. If two ranks share
   * a core, each message waits for this.
   */
  private static final int SPINS = 64;

  /**
   * After this idle time a waiter sleeps between polls: the awaited work may need the core, for
   * example if the system emulates a device, and the sleep hardly delays it.
   */
  private static final long TIMEOUT_NANOS = 1_000_000;

  private static final long REST_NANOS = 50_000;

  private final Wire wire;
  private final int progressContext;
  private final Duration timeout;

  // Start of the current wait.
  private long start;
  private int idle;
  private int busy;

  /** When the failure was noticed after which no more data arrives; 0 before. */
  private long idleSince;

  /**
   * Waits on a progress context of a wire.
   *
   * @param timeout of each wait
   */
  public WireWait(Wire wire, int progressContext, Duration timeout) {
    this.wire = wire;
    this.progressContext = progressContext;
    this.timeout = timeout;
  }

  /**
   * Puts, and waits while the lane is back-pressured; arguments as {@link Lane#put}.
   *
   * @return the number of the work
   * @throws LaneFailedException if the lane has failed
   * @throws WireTimeoutException if the lane is still back-pressured after the timeout
   */
  public long put(
      Lane lane,
      Region local,
      long localOffset,
      Region remote,
      long remoteOffset,
      long bytes,
      int counter) {
    long result = lane.put(local, localOffset, remote, remoteOffset, bytes, counter);
    if (result == Lane.BACK_PRESSURED) {
      begin();
      while ((result = lane.put(local, localOffset, remote, remoteOffset, bytes, counter))
          == Lane.BACK_PRESSURED) {
        pause("room for a put", lane);
      }
    }
    return accepted(result, "room for a put", lane);
  }

  /** Adds, and waits while the lane is back-pressured; errors as {@link #put}. */
  public long add(Lane lane, int counter, long value) {
    long result = lane.add(counter, value);
    if (result == Lane.BACK_PRESSURED) {
      begin();
      while ((result = lane.add(counter, value)) == Lane.BACK_PRESSURED) {
        pause("room for an add", lane);
      }
    }
    return accepted(result, "room for an add", lane);
  }

  /**
   * Waits until the local bytes of all work of a lane have left.
   *
   * @throws LaneFailedException if the lane has failed and work may be lost
   * @throws WireTimeoutException if bytes are left after the timeout
   */
  public void flush(Lane lane) {
    begin();
    while (!lane.flush()) {
      pause("the bytes of accepted work to leave", lane);
    }
    // Also true on a failed lane, whose bytes may never have left.
    if (lane.delivered() != lane.accepted()) {
      requireWorking("the bytes of accepted work to leave", lane);
    }
  }

  /**
   * Waits until all work of a lane is known to have taken effect.
   *
   * @throws LaneFailedException if the lane has failed
   * @throws WireTimeoutException if work is outstanding after the timeout
   */
  public void delivery(Lane lane) {
    begin();
    while (lane.delivered() != lane.accepted()) {
      requireWorking("delivery", lane);
      pause("delivery", lane);
    }
  }

  /**
   * Waits until a counter of this rank is at least {@code least}.
   *
   * @param from the peer whose lanes' failure ends the wait; -1 for none
   * @throws LaneFailedException if no more data can arrive from {@code from}, see {@link
   *     LaneFailure#of(Lane...)}
   * @throws WireTimeoutException if the counter is too low after the timeout
   */
  public void counter(int counter, long least, int from) {
    Counters counters = wire.counters();
    begin();
    int failed = 0;
    while (counters.get(counter) < least) {
      // The lane may have failed after its last work arrived: the counter is read once more below.
      int now = wire.failedLanes();
      if (now != failed) {
        failed = now;
        LaneFailure failure = from < 0 ? null : LaneFailure.of(wire, from);
        if (failure != null && counters.get(counter) < least) {
          throw new LaneFailedException(counterText(counter, least), failure);
        }
      }
      if (!poll()) {
        throw new WireTimeoutException(
            "waited %d ms for %s".formatted(timeout.toMillis(), counterText(counter, least)));
      }
    }
  }

  /**
   * Waits until a condition holds.
   *
   * @param what name of the condition, for the message
   * @throws WireTimeoutException if it does not hold after the timeout
   */
  public void until(BooleanSupplier condition, String what) {
    begin();
    while (!condition.getAsBoolean()) {
      pause(what, null);
    }
  }

  private String counterText(int counter, long least) {
    return "counter %d of rank %d to reach %d; it is %d"
        .formatted(counter, wire.rank(), least, wire.counters().get(counter));
  }

  private void begin() {
    start = System.nanoTime();
    idle = 0;
    busy = 0;
    idleSince = 0;
  }

  /**
   * Advances the progress context and yields the core at times; false after the timeout.
   *
   * @throws WireException if the thread is interrupted; the interrupt flag stays set
   */
  private boolean poll() {
    if (wire.poll(progressContext) != 0) {
      idleSince = 0;
      busy++;
      // Other work than the awaited may move without an end.
      return busy % SPINS != 0 || inTime(System.nanoTime());
    }
    idle++;
    if (idle % SPINS != 0) {
      return true;
    }
    long now = System.nanoTime();
    if (!inTime(now)) {
      return false;
    }
    if (idleSince == 0) {
      idleSince = now;
    }
    if (now - idleSince > TIMEOUT_NANOS) {
      LockSupport.parkNanos(REST_NANOS);
    } else {
      Thread.yield();
    }
    return true;
  }

  private boolean inTime(long now) {
    if (Thread.currentThread().isInterrupted()) {
      throw new WireException(
          ErrorCode.GROUP_INTERRUPTED,
          "the thread was interrupted while rank " + wire.rank() + " waited on its wire");
    }
    return now - start <= TimeUnit.NANOSECONDS.convert(timeout);
  }

  private void pause(String what, @Nullable Lane lane) {
    if (!poll()) {
      String where =
          lane == null
              ? "rank " + wire.rank()
              : "lane %d from rank %d to rank %d, %d of %d delivered"
                  .formatted(
                      lane.index(), wire.rank(), lane.peer(), lane.delivered(), lane.accepted());
      throw new WireTimeoutException(
          "waited %d ms for %s (%s)".formatted(timeout.toMillis(), what, where));
    }
  }

  private static long accepted(long result, String what, Lane lane) {
    if (result == Lane.FAILED) {
      requireWorking(what, lane);
    }
    return result;
  }

  private static void requireWorking(String what, Lane lane) {
    LaneFailure failure = lane.failure();
    if (failure != null) {
      throw new LaneFailedException(what, failure);
    }
  }
}
