package org.ep4j.cuda.internode.proxy;

import org.ep4j.cuda.struct.CommandRings;

/**
 * Offsets of the words that kernels and the host share, in one allocation of page-locked memory.
 * {@code kernels/transport/command_ring.cuh} documents their writers and memory order.
 *
 * @param host first byte as a host address
 * @param rings number of rings
 * @param capacity commands per ring, a power of two
 * @param ranks number of ranks
 * @param flushCounters number of words that count flushes
 */
record RingMemory(long host, int rings, int capacity, int ranks, int flushCounters) {
  /** A tail has its own cache line. */
  static final int TAIL_BYTES = 128;

  static final int RECORD_BYTES = 64;

  /** Device memory of a ring's control block, initially zero. */
  static final int CONTROL_BYTES = 256;

  static final int STATE = 0;
  static final int TICKET = 8;
  static final int TAIL_SEEN = 16;
  static final int LEFT = 24;

  /** Bit of a tail: the host has stopped reading. */
  static final long STOPPED = 1L << 63;

  long commands(int ring) {
    return host + (long) ring * capacity * Command.BYTES;
  }

  long tail(int ring) {
    return commands(rings) + (long) ring * TAIL_BYTES;
  }

  long record(int ring) {
    return tail(rings) + (long) ring * RECORD_BYTES;
  }

  long failure(int rank) {
    return record(rings) + (long) rank * Long.BYTES;
  }

  long flushCounter(int index) {
    return failure(ranks) + (long) index * Long.BYTES;
  }

  long bytes() {
    return flushCounter(flushCounters) - host;
  }

  /**
   * Writes the parameter of kernels.
   *
   * @param device first byte as a device address
   * @param control device address of the control blocks
   */
  void describe(CommandRings to, long device, long control) {
    long shift = device - host;
    to.commands.set(commands(0) + shift);
    to.tails.set(tail(0) + shift);
    to.control.set(control);
    to.records.set(record(0) + shift);
    to.failures.set(failure(0) + shift);
    to.flushCounters.set(flushCounter(0) + shift);
    to.rings.set(rings);
    to.capacity.set(capacity);
  }
}
