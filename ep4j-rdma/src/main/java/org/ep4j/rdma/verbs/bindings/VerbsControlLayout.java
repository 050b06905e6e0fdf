package org.ep4j.rdma.verbs.bindings;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;

/**
 * The control protocol between two ends of a queue pair, and the memory block of each end.
 *
 * <p><b>Requests of a sender.</b> A queue pair is a reliable connection: each request takes effect
 * after those before it.
 *
 * <ul>
 *   <li>A put without a counter is a plain write.
 *   <li>A put with a counter ends with a write with immediate data, the number of the counter. The
 *       receiver gets a completion when its bytes and all earlier writes are visible, and adds 1.
 *   <li>An add is a <i>message</i> of 16 bytes (a send): the counter and the value to add.
 * </ul>
 *
 * <p>The CPU of the receiver updates counters. Remote atomics are not used: they need not be atomic
 * with respect to the CPU, or between two devices.
 *
 * <p><b>Flow control.</b> A write with immediate and a message use a posted receive of the other
 * end. {@code depth} receives are posted. The sender counts them and waits until the other end has
 * handled earlier ones, so a receiver is always ready. One more receive is reserved for the
 * goodbye, which is sent once.
 *
 * <p><b>The word {@link #HANDLED}</b> of a block is written by the peer (a plain write of 8 aligned
 * bytes) and read by the owner with acquire order: the total of receives that the peer has handled
 * and reposted. It permits as many new messages, and confirms their counters. The word is
 * monotonic; a late write only delays progress.
 *
 * <p><b>A lost queue pair</b> is replaced by another one to the same peer, see {@code
 * QueuePairFailover}; the ends exchange messages about it over the other queue pair.
 *
 * <p><b>The places {@link #place}</b> hold the messages, one per receive, in the order in which
 * receives are used.
 */
public final class VerbsControlLayout {
  /** Offset of the word that the peer writes. */
  public static final long HANDLED = 0;

  private static final long PLACES = 64;

  /** Bytes of a message: value, kind, number. */
  public static final int MESSAGE_BYTES = 16;

  /** Adds {@code value} to counter {@code number}. */
  public static final int ADD = 1;

  /** The sender closes its wire; no message follows. */
  public static final int GOODBYE = 2;

  /**
   * Queue pair {@code number} between the two ranks is lost and stopped at the sender of the
   * message; {@code value} is its final number of handled receives.
   */
  public static final int MOVED = 3;

  /** Queue pair {@code number} has failed with its lanes; the peer must not wait for it. */
  public static final int GONE = 4;

  private static final long VALUE = 0;
  private static final long KIND = 8;
  private static final long NUMBER = 12;

  private static final VarHandle LONG = ValueLayout.JAVA_LONG.varHandle().withInvokeExactBehavior();

  private VerbsControlLayout() {}

  /** Bytes of the block of a queue pair. */
  public static long bytes(int receives) {
    return PLACES + ((long) receives * MESSAGE_BYTES + 63 & -64);
  }

  /** Offset of the place of a receive. */
  public static long place(int receive) {
    return PLACES + (long) receive * MESSAGE_BYTES;
  }

  /** Reads the word with acquire order. */
  public static long handled(MemorySegment block) {
    return (long) LONG.getAcquire(block, HANDLED);
  }

  public static void message(MemorySegment memory, long at, int kind, int number, long value) {
    memory.set(ValueLayout.JAVA_LONG, at + VALUE, value);
    memory.set(ValueLayout.JAVA_INT, at + KIND, kind);
    memory.set(ValueLayout.JAVA_INT, at + NUMBER, number);
  }

  public static int kind(MemorySegment memory, long at) {
    return memory.get(ValueLayout.JAVA_INT, at + KIND);
  }

  public static int number(MemorySegment memory, long at) {
    return memory.get(ValueLayout.JAVA_INT, at + NUMBER);
  }

  public static long value(MemorySegment memory, long at) {
    return memory.get(ValueLayout.JAVA_LONG, at + VALUE);
  }
}
