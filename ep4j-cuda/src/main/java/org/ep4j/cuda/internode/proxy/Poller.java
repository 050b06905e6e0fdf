package org.ep4j.cuda.internode.proxy;

import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.memory.NativeMemory;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneLosses;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.jspecify.annotations.Nullable;

/**
 * A thread that reads some rings and posts their commands to the lanes of one progress context. A
 * lane that accepts no more work gets a queue, so that other lanes continue; when the queue is
 * full, the ring waits, and finally the kernel. After each batch, every lane with new work is
 * flushed once.
 *
 * <p>An invalid command or a wire error stops the rings of this thread and is stored for {@link
 * #problem()}; a failed lane discards its commands, and its peer's word notifies the kernels.
 */
final class Poller implements Runnable, CommandRing.Taker {
  /** Commands of a ring between checks of the other rings and of the wire. */
  private static final int BATCH = 256;

  /** Rounds without work before the thread yields its core. */
  private static final int SPINS = 4096;

  /**
   * Rounds without work, a large part of a second, after which the thread sleeps between rounds:
   * after such a pause a little more latency is acceptable.
   */
  private static final int REST = 1 << 22;

  private static final long REST_NANOS = 50_000;

  private final Wire wire;
  private final int progressContext;
  private final Region source;
  private final Region target;
  private final RingMemory memory;
  private final LaneLosses losses;
  private final CommandRing[] rings;
  private final int core;
  private final long timeoutNanos;
  private final int lanesOfPeer;
  private final @Nullable LaneQueue[] queues;
  private final LaneQueue[] all;
  private final LaneQueue[] touched;
  private int touchedCount;
  private long taken;
  private long dropped;
  private int failedLanes;

  private final AtomicLong posted = new AtomicLong();
  private final AtomicLong lost = new AtomicLong();
  private volatile @Nullable Throwable problem;
  private volatile boolean closing;

  /** Counter that tells the peers that this rank has closed; -1 until then. */
  private volatile int closedCounter = -1;

  /** Lanes that have carried that notice. */
  private int notifiedLanes;

  Poller(
      Wire wire,
      int progressContext,
      Region source,
      Region target,
      RingMemory memory,
      List<CommandRing> rings,
      LaneLosses losses,
      int core,
      int maxQueued,
      long timeoutNanos) {
    this.wire = wire;
    this.progressContext = progressContext;
    this.source = source;
    this.target = target;
    this.memory = memory;
    this.rings = rings.toArray(CommandRing[]::new);
    this.losses = losses;
    this.core = core;
    this.timeoutNanos = timeoutNanos;
    int progressContexts = wire.config().progressContexts();
    lanesOfPeer = Math.ceilDiv(wire.config().lanes() - progressContext, progressContexts);
    queues = new LaneQueue[wire.size() * lanesOfPeer];
    all = new LaneQueue[(wire.size() - 1) * lanesOfPeer];
    int count = 0;
    for (int peer = 0; peer < wire.size(); peer++) {
      for (int lane = 0; lane < lanesOfPeer && peer != wire.rank(); lane++) {
        LaneQueue queue =
            new LaneQueue(
                wire.lane(peer, progressContext + lane * progressContexts),
                ProxyConfig.QUEUE,
                maxQueued);
        queues[peer * lanesOfPeer + lane] = queue;
        all[count++] = queue;
      }
    }
    touched = new LaneQueue[all.length];
  }

  @Override
  public void run() {
    try {
      if (core >= 0) {
        CpuAffinity.pin(core);
      }
      int idle = 0;
      while (!closing && problem == null) {
        if (round() != 0) {
          idle = 0;
        } else {
          idle = pause(idle);
        }
      }
      finish();
    } catch (Throwable t) { // kernels that wait must learn that the ring has no reader
      fail(t);
    } finally {
      for (CommandRing ring : rings) {
        ring.stop();
      }
    }
  }

  /** Pauses between two rounds; returns the number of idle rounds. */
  private static int pause(int idle) {
    if (idle == REST) {
      LockSupport.parkNanos(REST_NANOS);
      return REST;
    }
    if (idle % SPINS == 0) {
      Thread.yield();
    } else {
      Thread.onSpinWait();
    }
    return idle + 1;
  }

  /** Posts and flushes commands pushed before closing, within the time limit. */
  private void finish() {
    long start = System.nanoTime();
    while (problem == null) {
      long before = taken;
      // Incoming traffic does not count as work of the kernels: peers may continue to send.
      int ignored = round();
      LaneQueue unsent = unsent();
      if (unsent == null && taken == before) {
        return;
      }
      if (System.nanoTime() - start > timeoutNanos) {
        fail(
            new Ep4jException(
                ErrorCode.PROXY_UNSENT,
                timeoutNanos / 1_000_000 + " ms after it was closed " + rest(unsent)));
      }
    }
  }

  /** A lane with unflushed work; null if none. */
  private @Nullable LaneQueue unsent() {
    LaneQueue found = null;
    for (LaneQueue queue : all) {
      if (!queue.isEmpty() || !queue.lane.flush()) {
        found = queue;
      }
    }
    return found;
  }

  private static String rest(@Nullable LaneQueue unsent) {
    return unsent == null
        ? "kernels were still pushing"
        : "lane "
            + unsent.lane.index()
            + " to rank "
            + unsent.lane.peer()
            + " had not sent all: "
            + unsent.size()
            + " commands waited, "
            + unsent.lane.delivered()
            + " of "
            + unsent.lane.accepted()
            + " accepted were delivered";
  }

  private int round() {
    // Read before the rings: the thread that sets it has seen the end of the last kernel that
    // pushes.
    int closed = closedCounter;
    int done = 0;
    for (CommandRing ring : rings) {
      done += ring.drain(this, BATCH);
    }
    if (done == 0 && closed >= 0 && notifiedLanes < all.length) {
      notifyClosed(closed);
    }
    for (int i = 0; i < touchedCount; i++) {
      LaneQueue queue = touched[i];
      queue.touched = false;
      boolean ignored = queue.lane.flush();
    }
    int waiting = 0;
    for (int i = 0; i < touchedCount; i++) {
      LaneQueue queue = touched[i];
      done += retry(queue);
      if (!queue.isEmpty()) {
        queue.touched = true;
        touched[waiting++] = queue;
      }
    }
    touchedCount = waiting;
    done += wire.poll(progressContext);
    if (wire.failedLanes() != failedLanes) {
      failedLanes = wire.failedLanes();
      tellFailures();
    }
    posted.setRelease(taken);
    lost.setRelease(dropped);
    return done;
  }

  /** The rings are empty, and no kernel pushes. */
  private void notifyClosed(int counter) {
    for (LaneQueue queue : all) {
      if (!queue.notified && queue.isEmpty() && queue.lane.add(counter, 1) != Lane.BACK_PRESSURED) {
        queue.notified = true;
        notifiedLanes++;
        boolean ignored = queue.lane.flush();
      }
    }
  }

  private int retry(LaneQueue queue) {
    int done = 0;
    while (!queue.isEmpty() && post(queue, queue.first(), queue.second())) {
      queue.remove();
      done++;
    }
    return done;
  }

  @Override
  public boolean take(long first, long second) {
    int peer = Command.destination(second);
    int lane = Command.lane(first);
    LaneQueue queue =
        peer < wire.size() && lane < lanesOfPeer ? queues[peer * lanesOfPeer + lane] : null;
    if (queue == null) {
      return refuse(first, second, null);
    }
    if (!queue.touched) {
      queue.touched = true;
      touched[touchedCount++] = queue;
    }
    if (!queue.isEmpty()) {
      return queue.offer(first, second);
    }
    return post(queue, first, second) || (problem == null && queue.offer(first, second));
  }

  /** False if the lane accepts no more work for now, or rejects the command, which is a problem. */
  private boolean post(LaneQueue queue, long first, long second) {
    long result;
    try {
      result = give(queue.lane, first, second);
    } catch (RuntimeException e) {
      return refuse(first, second, e);
    }
    if (result == Lane.BACK_PRESSURED) {
      return false;
    }
    taken++;
    if (result == Lane.FAILED) {
      dropped++;
    }
    return true;
  }

  private long give(Lane lane, long first, long second) {
    int counter = Command.counter(second);
    return switch (Command.operation(first)) {
      case Command.PUT ->
          lane.put(
              source,
              Command.source(first),
              target,
              Command.target(second),
              Command.bytes(first),
              counter == Command.NO_COUNTER ? Lane.NO_COUNTER : counter);
      case Command.ADD -> lane.add(counter, Command.value(first, second));
      case Command.FLUSH -> flush(lane, counter);
      default -> throw new IllegalStateException("no such operation");
    };
  }

  private long flush(Lane lane, int flushCounter) {
    if (flushCounter >= memory.flushCounters()) {
      throw new IllegalStateException(
          "flush counter " + flushCounter + " of " + memory.flushCounters());
    }
    if (!lane.flush()) {
      return Lane.BACK_PRESSURED;
    }
    long at = memory.flushCounter(flushCounter);
    NativeMemory.putLongRelease(at, NativeMemory.getLong(at) + 1);
    return 0;
  }

  private boolean refuse(long first, long second, @Nullable RuntimeException cause) {
    fail(
        new Ep4jException(
            ErrorCode.PROXY_STOPPED,
            "a kernel pushed an invalid command: operation "
                + Command.operation(first)
                + ", destination "
                + Command.destination(second)
                + ", lane "
                + Command.lane(first)
                + ", source "
                + Command.source(first)
                + ", target "
                + Command.target(second)
                + ", "
                + Command.bytes(first)
                + " bytes, counter "
                + Command.counter(second)
                + (cause == null ? "" : ": " + cause.getMessage()),
            cause));
    return false;
  }

  /**
   * Writes one word per rank, counted from 1 so that 0 means none. Several threads may write it.
   */
  private void tellFailures() {
    for (int peer = 0; peer < wire.size(); peer++) {
      LaneFailure failure = peer == wire.rank() ? null : LaneFailure.of(wire, peer);
      if (failure != null) {
        NativeMemory.putLongRelease(memory.failure(peer), failure.cause().ordinal() + 1L);
      }
    }
    losses.record();
  }

  private void fail(Throwable cause) {
    if (problem == null) {
      problem = cause;
    }
  }

  /** Adds 1 to a counter of every peer on each lane, once the rings are empty. Any thread. */
  void publishClosed(int counter) {
    closedCounter = counter;
  }

  /** Ends the thread after pending commands are posted. */
  void close() {
    closing = true;
  }

  /** Number of commands posted to lanes. */
  long posted() {
    return posted.getAcquire();
  }

  /** Number of posted commands of failed lanes. */
  long lost() {
    return lost.getAcquire();
  }

  /** Why the thread no longer reads; null while it reads, and after a regular close. */
  @Nullable Throwable problem() {
    return problem;
  }
}
