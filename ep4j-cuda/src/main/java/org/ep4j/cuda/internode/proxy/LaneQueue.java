package org.ep4j.cuda.internode.proxy;

import org.ep4j.wire.Lane;

/**
 * A lane and its queued commands in FIFO order. Grows while the lane accepts no work; one thread.
 */
final class LaneQueue {
  final Lane lane;
  private final int limit;

  /** Two words a command; a power of two of commands. */
  private long[] words;

  private int head;
  private int size;

  /** Whether the lane has work since its last flush. */
  boolean touched;

  /** Whether the lane has carried the notice that this rank has closed. */
  boolean notified;

  /**
   * A queue without commands.
   *
   * @param capacity number of commands that it has memory for at first, a power of two
   * @param limit largest number of queued commands, at least that
   */
  LaneQueue(Lane lane, int capacity, int limit) {
    this.lane = lane;
    this.limit = limit;
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
    if (size == limit) {
      return false;
    }
    if (2 * size == words.length) {
      grow();
    }
    int at = 2 * (head + size) & (words.length - 1);
    words[at] = first;
    words[at + 1] = second;
    size++;
    return true;
  }

  private void grow() {
    long[] larger = new long[2 * words.length];
    int begin = 2 * head & (words.length - 1);
    System.arraycopy(words, begin, larger, 0, words.length - begin);
    System.arraycopy(words, 0, larger, words.length - begin, begin);
    words = larger;
    head = 0;
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
