package org.ep4j.cuda.internode.proxy;

import org.ep4j.memory.NativeMemory;

/**
 * The host's end of a ring; see {@code kernels/transport/command_ring.cuh} for the protocol. One
 * thread.
 *
 * <p>A word is valid once its highest bit equals that of the lap; both words of a command are read
 * with acquire, so that earlier writes of the warp are visible. The tail is written with release
 * after the words have been read: kernels may then overwrite them.
 */
final class CommandRing {
  /** Consumer of commands. */
  interface Taker {
    /**
     * Consumes a command.
     *
     * @return whether it was consumed; if not, it is offered again
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

  /** Passes at most {@code max} available commands; returns the number of consumed commands. */
  int drain(Taker taker, int max) {
    if (stopped) {
      return 0;
    }
    long at = next;
    long end = at + max;
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

  /** Stops reading and publishes this. Later pushes into the free part of the ring are lost. */
  void stop() {
    stopped = true;
    NativeMemory.putLongRelease(tail, next | RingMemory.STOPPED);
  }
}
