package org.ep4j.wire;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;

/**
 * 64-bit words that count arrivals. By convention a word has one reader, its owner, and any number
 * of writers: peers, and the wire on their behalf, which add atomically with release order. The
 * owner reads with acquire order and then sees the data that the count covers. Counters start at 0,
 * change only by additions, and are never reset: a waiter for {@code n} more remembers its start
 * value.
 *
 * <p>Neighbouring counters share cache lines; use every eighth counter if two threads wait at the
 * same time.
 *
 * <p>The words are in host memory at a fixed address until the wire is closed, so a waiting device
 * can map them. Any thread may read.
 */
public final class Counters {
  private static final VarHandle LONG = ValueLayout.JAVA_LONG.varHandle().withInvokeExactBehavior();

  private static final long PAGE = 4096;

  private final MemorySegment words;
  private final int count;

  /**
   * Counters over the words of a segment.
   *
   * @param words native, aligned to 8 bytes, zeroed
   */
  public Counters(MemorySegment words) {
    this.words = words;
    this.count = Math.toIntExact(words.byteSize() / Long.BYTES);
  }

  /**
   * Counters on pages of their own, so that a device can map them.
   *
   * @param arena owns the words while peers may add
   */
  public static Counters allocate(Arena arena, int count) {
    long bytes = (long) count * Long.BYTES;
    return new Counters(arena.allocate(Math.ceilDiv(bytes, PAGE) * PAGE, PAGE).asSlice(0, bytes));
  }

  /** Number of counters. */
  public int count() {
    return count;
  }

  /** Reads a counter with acquire order. */
  public long get(int counter) {
    return (long) LONG.getAcquire(words, (long) counter * Long.BYTES);
  }

  /** Adds with release order; for wires. */
  public void add(int counter, long value) {
    long before = (long) LONG.getAndAddRelease(words, (long) counter * Long.BYTES, value);
    assert before != before + value || value == 0;
  }

  /** All words, counter 0 first. */
  public MemorySegment words() {
    return words;
  }
}
