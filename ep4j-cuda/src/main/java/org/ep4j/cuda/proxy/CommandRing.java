package org.ep4j.cuda.proxy;

import org.ep4j.memory.NativeMemory;

/**
 * The host's end of a ring; see {@code kernels/command_ring.cuh} for the protocol. One thread.
 *
 * <p>A word is there once its highest bit is that of the lap; both words of a command are read with
 * acquire, so that what the warp wrote before can be seen. The tail is written with release after
 * the words have been read: kernels may then write over them.
 */
final class CommandRing {
  /** Who takes the commands. */
  interface Taker {
    /**
     * Takes a command.
     *
     * @return whether it was taken; if not, it is offered again
     */
    boolean take(long first, long second);
  }

  private final long commands;
  private final long tail;
  private final int capacity;
  private long next;
  private boolean stopped;

  CommandRing(RingMemory memory, int ring) {
    this.commands = memory.commands(ring);
    this.tail = memory.tail(ring);
    this.capacity = memory.capacity();
  }

  /** Hands over what has come, at most {@code most} commands; returns how many were taken. */
  int drain(Taker taker, int most) {
    if (stopped) {
      return 0;
    }
    long at = next;
    long end = at + most;
    while (at < end) {
      long word = commands + (at & (capacity - 1)) * Command.BYTES;
      long first = NativeMemory.getLongAcquire(word);
      // The sign is the bit of the lap: negative in even laps.
      boolean even = (at & capacity) == 0;
      if (first < 0 != even) {
        break;
      }
      long second = NativeMemory.getLongAcquire(word + Long.BYTES);
      if (second < 0 != even || !taker.take(first, second)) {
        break;
      }
      at++;
    }
    int taken = (int) (at - next);
    if (taken > 0) {
      next = at;
      NativeMemory.putLongRelease(tail, at);
    }
    return taken;
  }

  /** Reads no more, and says so. Pushes into what is left of the ring go nowhere. */
  void stop() {
    stopped = true;
    NativeMemory.putLongRelease(tail, next | RingMemory.STOPPED);
  }
}
