package org.ep4j.plan.simulation;

import java.util.Arrays;

/**
 * Events in the order of their times, without an object for an event. Equal times come in an order
 * that depends on the calls alone: the same calls give the same order.
 *
 * <p>Times ahead fall into three parts: the present bucket, a small heap; the other buckets of the
 * present range, lists without order; and what lies behind the range, one list. A range that is
 * used up is followed by one that spans all times of that list. So an event is moved twice and
 * sorted among few, whatever the times.
 */
final class EventQueue {
  private static final int MAX_BUCKETS = 1 << 14;
  private static final int MIN_BUCKETS = 16;
  private static final int NONE = -1;

  /** Shortest range, microseconds: times of a range that differ by less share a bucket. */
  private static final double MIN_RANGE = 1e-6;

  /** The list of what lies behind the range. */
  private static final int BEHIND = MAX_BUCKETS;

  /** Events of a block: a list is read block by block, so that few reads wait for memory. */
  private static final int BLOCK = 8;

  /** Of each list, the place behind its last event, or {@link #NONE}. */
  private final int[] ends = new int[MAX_BUCKETS + 1];

  private double rangeStart;
  private double bucketsPerMicro = 1;

  /** Buckets of the range: as many as events were behind the range before. */
  private int buckets;

  /** The present bucket, or {@code buckets} after the last. */
  private int bucket;

  /** Time and event of each place, in turn. */
  private long[] pool = new long[2 * BLOCK << 10];

  /** Of each block, the block before it in its list, or the next free one. */
  private int[] previous = new int[1 << 10];

  private int usedBlocks;
  private int freeBlock = NONE;

  private double behindMin = Double.POSITIVE_INFINITY;
  private double behindMax;
  private int behindCount;

  private double[] heapTimes = new double[64];
  private long[] heapEvents = new long[64];
  private int heapSize;

  private double time;
  private long event;
  private long count;

  EventQueue() {
    Arrays.fill(ends, NONE);
  }

  /**
   * Adds an event.
   *
   * @param at microseconds, not before {@link #time}
   */
  void add(double at, long added) {
    int place = bucket == buckets ? BEHIND : place(at);
    if (place <= bucket) {
      push(at, added);
      return;
    }
    append(place, at, added);
    if (place == BEHIND) {
      behindMin = Math.min(behindMin, at);
      behindMax = Math.max(behindMax, at);
      behindCount++;
    }
  }

  /** Takes the earliest event, or returns false without one. */
  boolean poll() {
    while (heapSize == 0) {
      if (bucket < buckets - 1) {
        bucket++;
        loadBucket();
      } else if (ends[BEHIND] != NONE) {
        startRange();
      } else {
        bucket = buckets;
        return false;
      }
    }
    pop();
    count++;
    return true;
  }

  /** Time of the event that was taken last, microseconds. */
  double time() {
    return time;
  }

  /** The event that was taken last. */
  long event() {
    return event;
  }

  /** Events taken so far. */
  long count() {
    return count;
  }

  /** Buckets are compared by this number alone, so rounding cannot change the order. */
  private int place(double at) {
    double place = (at - rangeStart) * bucketsPerMicro;
    return place >= buckets ? BEHIND : (int) place;
  }

  private void append(int list, double at, long added) {
    int place = ends[list];
    if (place == NONE || place % BLOCK == 0) {
      int block = newBlock();
      previous[block] = place == NONE ? NONE : place / BLOCK - 1;
      place = block * BLOCK;
    }
    pool[2 * place] = Double.doubleToRawLongBits(at);
    pool[2 * place + 1] = added;
    ends[list] = place + 1;
  }

  private int newBlock() {
    int block = freeBlock;
    if (block != NONE) {
      freeBlock = previous[block];
      return block;
    }
    if (usedBlocks == previous.length) {
      previous = Arrays.copyOf(previous, 2 * usedBlocks);
      pool = Arrays.copyOf(pool, 2 * pool.length);
    }
    return usedBlocks++;
  }

  private void loadBucket() {
    int end = ends[bucket];
    ends[bucket] = NONE;
    while (end != NONE) {
      int block = (end - 1) / BLOCK;
      for (int place = block * BLOCK; place < end; place++) {
        push(Double.longBitsToDouble(pool[2 * place]), pool[2 * place + 1]);
      }
      end = release(block);
    }
  }

  /** Frees a block and returns the end of the block before it. */
  private int release(int block) {
    int before = previous[block];
    previous[block] = freeBlock;
    freeBlock = block;
    return before == NONE ? NONE : (before + 1) * BLOCK;
  }

  private void startRange() {
    rangeStart = behindMin;
    buckets = Math.clamp(behindCount, MIN_BUCKETS, MAX_BUCKETS);
    bucketsPerMicro = (buckets - 1) / Math.max(MIN_RANGE, behindMax - behindMin);
    bucket = -1;
    int end = ends[BEHIND];
    ends[BEHIND] = NONE;
    behindMin = Double.POSITIVE_INFINITY;
    behindMax = 0;
    behindCount = 0;
    while (end != NONE) {
      int block = (end - 1) / BLOCK;
      for (int place = block * BLOCK; place < end; place++) {
        double at = Double.longBitsToDouble(pool[2 * place]);
        append(place(at), at, pool[2 * place + 1]);
      }
      end = release(block);
    }
  }

  private void push(double at, long added) {
    if (heapSize == heapTimes.length) {
      heapTimes = Arrays.copyOf(heapTimes, 2 * heapSize);
      heapEvents = Arrays.copyOf(heapEvents, 2 * heapSize);
    }
    int child = heapSize++;
    while (child > 0) {
      int parent = (child - 1) >>> 1;
      if (heapTimes[parent] <= at) {
        break;
      }
      heapTimes[child] = heapTimes[parent];
      heapEvents[child] = heapEvents[parent];
      child = parent;
    }
    heapTimes[child] = at;
    heapEvents[child] = added;
  }

  private void pop() {
    double[] keys = heapTimes;
    long[] values = heapEvents;
    time = keys[0];
    event = values[0];
    int size = --heapSize;
    double last = keys[size];
    int hole = 0;
    for (int child = 1; child < size; child = 2 * hole + 1) {
      if (child + 1 < size && keys[child + 1] < keys[child]) {
        child++;
      }
      if (keys[child] >= last) {
        break;
      }
      keys[hole] = keys[child];
      values[hole] = values[child];
      hole = child;
    }
    keys[hole] = last;
    values[hole] = values[size];
  }
}
