package org.ep4j.cuda.internode.proxy;

import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.memory.NativeMemory;

/**
 * Host threads instead of a kernel, which push as {@code command_ring.cuh} does: the same words in
 * the same order. Tickets are from an atomic counter instead of the device's head.
 */
final class HostProducer {
  private final RingMemory memory;
  private final int ring;
  private final AtomicLong head = new AtomicLong();

  HostProducer(RingMemory memory, int ring) {
    this.memory = memory;
    this.ring = ring;
  }

  static long putFirst(int lane, long source, long bytes) {
    return source / Command.UNIT
        | bytes / Command.UNIT << Command.LENGTH_SHIFT
        | (long) lane << Command.LANE_SHIFT
        | (long) Command.PUT << Command.OPERATION_SHIFT;
  }

  static long addFirst(int lane, long value) {
    return value & 0xffff_ffffL
        | (long) lane << Command.LANE_SHIFT
        | (long) Command.ADD << Command.OPERATION_SHIFT;
  }

  static long flushFirst(int lane) {
    return (long) lane << Command.LANE_SHIFT | (long) Command.FLUSH << Command.OPERATION_SHIFT;
  }

  static long second(int peer, long target, int counter) {
    return target / Command.UNIT
        | (long) counter << Command.COUNTER_SHIFT
        | (long) peer << Command.DESTINATION_SHIFT;
  }

  /** False if the ring has stopped or had no room for ten seconds. */
  boolean push(long first, long second) {
    long ticket = head.getAndIncrement();
    long start = System.nanoTime();
    long tail;
    while (ticket >= ((tail = tail()) & ~RingMemory.STOPPED) + memory.capacity()) {
      if (tail < 0 || System.nanoTime() - start > 10_000_000_000L) {
        return false;
      }
      // The machine may have fewer cores than threads.
      Thread.yield();
    }
    if (tail < 0) {
      return false;
    }
    long lap = (ticket & memory.capacity()) == 0 ? 1L << 63 : 0;
    long at = memory.commands(ring) + (ticket & (memory.capacity() - 1)) * Command.BYTES;
    // The order of the two writes is arbitrary.
    if ((ticket & 1) == 0) {
      NativeMemory.putLongRelease(at, first | lap);
      NativeMemory.putLongRelease(at + Long.BYTES, second | lap);
    } else {
      NativeMemory.putLongRelease(at + Long.BYTES, second | lap);
      NativeMemory.putLongRelease(at, first | lap);
    }
    return true;
  }

  long tail() {
    return NativeMemory.getLongAcquire(memory.tail(ring));
  }
}
