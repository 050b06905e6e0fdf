package org.ep4j.cuda.internode.proxy;

import org.ep4j.wire.Lane;

/** A lane and its queued commands in FIFO order. One thread. */
final class LaneQueue {
  final Lane lane;
  private final long[] words;
  private int head;
  private int size;

  /** Whether the lane has work since its last flush. */
  boolean touched;

  /** Whether the lane has carried the notice that this rank has closed. */
  boolean notified;

  /**
   * A queue without commands.
   *
   * @param capacity largest number of queued commands, a power of two
   */
  LaneQueue(Lane lane, int capacity) {
    this.lane = lane;
    this.words = new long[2 * capacity];
  }

  boolean isEmpty() {
    return size == 0;
  }

  int size() {
    return size;
  }

  /** Appends a command; false if the queue is full. */
  boolean offer(long first, long second) {
    int at = 2 * (head + size) & (words.length - 1);
    if (2 * size == words.length) {
      return false;
    }
    words[at] = first;
    words[at + 1] = second;
    size++;
    return true;
  }

  long first() {
    return words[2 * head & (words.length - 1)];
  }

  long second() {
    return words[(2 * head & (words.length - 1)) + 1];
  }

  void remove() {
    head++;
    size--;
  }
}
