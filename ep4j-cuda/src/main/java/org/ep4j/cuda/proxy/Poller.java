package org.ep4j.cuda.proxy;

import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.Ep4jException;
import org.ep4j.memory.NativeMemory;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.jspecify.annotations.Nullable;

/**
 * A thread that reads some rings and posts what they hold to the lanes of one strand. A lane that
 * takes no more gets a queue, so that the others go on; once that is full, the ring waits, and with
 * it, in the end, the kernel. After each batch every lane that was given work is handed over once.
 *
 * <p>What is wrong with one command, or with the wire, stops the rings of this thread and is kept
 * for {@link #problem()}; a lane that has failed swallows what comes for it, and its peer's word
 * tells the kernels.
 */
final class Poller implements Runnable, CommandRing.Taker {
  /** Commands of a ring between looks at the other rings and at the wire. */
  private static final int BATCH = 256;

  /** Commands that wait for a lane before the ring waits. */
  private static final int QUEUE = 256;

  /** Rounds without work before another thread may have the core. */
  private static final int SPINS = 4096;

  /**
   * Rounds without work, a good part of a second, after which the thread rests between rounds: who
   * has not decoded for so long can wait a moment longer.
   */
  private static final int REST = 1 << 22;

  private static final long REST_NANOS = 50_000;

  private final Wire wire;
  private final int strand;
  private final Region source;
  private final Region target;
  private final RingMemory memory;
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

  Poller(
      Wire wire,
      int strand,
      Region source,
      Region target,
      RingMemory memory,
      List<CommandRing> rings,
      int core,
      long timeoutNanos) {
    this.wire = wire;
    this.strand = strand;
    this.source = source;
    this.target = target;
    this.memory = memory;
    this.rings = rings.toArray(CommandRing[]::new);
    this.core = core;
    this.timeoutNanos = timeoutNanos;
    int strands = wire.config().progressContexts();
    lanesOfPeer = Math.ceilDiv(wire.config().lanes() - strand, strands);
    queues = new LaneQueue[wire.size() * lanesOfPeer];
    all = new LaneQueue[(wire.size() - 1) * lanesOfPeer];
    int count = 0;
    for (int peer = 0; peer < wire.size(); peer++) {
      for (int lane = 0; lane < lanesOfPeer && peer != wire.rank(); lane++) {
        LaneQueue queue = new LaneQueue(wire.lane(peer, strand + lane * strands), QUEUE);
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
    } catch (Throwable t) { // whatever it is, kernels that wait must learn that nobody reads
      fail(t);
    } finally {
      for (CommandRing ring : rings) {
        ring.stop();
      }
    }
  }

  /** Between two rounds; how many have been idle. */
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

  /** What came before closing is still posted and handed over, as far as the time allows. */
  private void finish() {
    long start = System.nanoTime();
    while (problem == null) {
      long before = taken;
      // What comes from the peers is no work of the kernels: they may go on sending.
      int ignored = round();
      LaneQueue unsent = unsent();
      if (unsent == null && taken == before) {
        return;
      }
      if (System.nanoTime() - start > timeoutNanos) {
        fail(
            new Ep4jException(
                "%d ms after it was closed %s".formatted(timeoutNanos / 1_000_000, rest(unsent))));
      }
    }
  }

  /** A lane that has yet to hand over what it was given; null if there is none. */
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
        : "lane %d to rank %d had not sent all: %d commands waited, %d of %d accepted were delivered"
            .formatted(
                unsent.lane.index(),
                unsent.lane.peer(),
                unsent.size(),
                unsent.lane.delivered(),
                unsent.lane.accepted());
  }

  private int round() {
    int done = 0;
    for (CommandRing ring : rings) {
      done += ring.drain(this, BATCH);
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
    done += wire.poll(strand);
    if (wire.failedLanes() != failedLanes) {
      failedLanes = wire.failedLanes();
      tellFailures();
    }
    posted.setRelease(taken);
    lost.setRelease(dropped);
    return done;
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

  /** False if the lane takes no more for now, or refuses the command, which is a problem. */
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
      throw new IllegalStateException("there are " + memory.flushCounters() + " notices");
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
        new IllegalStateException(
            ("a kernel pushed a command that cannot be: operation %d, destination %d, lane %d,"
                    + " source %d, target %d, %d bytes, counter %d%s")
                .formatted(
                    Command.operation(first),
                    Command.destination(second),
                    Command.lane(first),
                    Command.source(first),
                    Command.target(second),
                    Command.bytes(first),
                    Command.counter(second),
                    cause == null ? "" : ": " + cause.getMessage()),
            cause));
    return false;
  }

  /** A word a rank, counted from 1 so that 0 is none. Several threads may say it. */
  private void tellFailures() {
    for (int peer = 0; peer < wire.size(); peer++) {
      LaneFailure failure = peer == wire.rank() ? null : LaneFailure.of(wire, peer);
      if (failure != null) {
        NativeMemory.putLongRelease(memory.failure(peer), failure.cause().ordinal() + 1L);
      }
    }
  }

  private void fail(Throwable cause) {
    if (problem == null) {
      problem = cause;
    }
  }

  /** Ends the thread once what has come is posted. */
  void close() {
    closing = true;
  }

  /** Commands that were given to lanes so far. */
  long posted() {
    return posted.getAcquire();
  }

  /** Of these, those for lanes that had failed. */
  long lost() {
    return lost.getAcquire();
  }

  /** Why it reads no more; null while it does, and when it was closed. */
  @Nullable Throwable problem() {
    return problem;
  }
}
