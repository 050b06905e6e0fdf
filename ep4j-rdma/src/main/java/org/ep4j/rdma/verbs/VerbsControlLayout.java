package org.ep4j.rdma.verbs;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;

/**
 * What two ends of a queue pair tell each other besides bytes, and the block of memory that each
 * end has for it.
 *
 * <p><b>Requests of a sender.</b> All are in the order of the queue pair, which is that of a
 * reliable connection: each takes effect after those before it.
 *
 * <ul>
 *   <li>A put that is not counted is a plain write.
 *   <li>A put that is counted ends in a write with immediate data, the number of the counter. The
 *       receiver gets a completion once its bytes and all that came before are visible, and adds 1.
 *   <li>An add is a <i>message</i> of 16 bytes (a send): the counter and by how much.
 * </ul>
 *
 * <p>Counters are counted by the receiver's processor, not by remote atomics: these need not be
 * atomic towards the processor, nor between two devices.
 *
 * <p><b>Who waits for whom.</b> A write with immediate and a message use up a receive that the
 * other end has posted. There are {@code depth} for them, and the sender counts: it posts no more
 * before the other end has handled earlier ones, so a receiver is always ready. One more receive is
 * kept for the farewell, which is sent once.
 *
 * <p><b>The word {@link #HANDLED}</b> of a block is written by the peer (a plain write of 8 aligned
 * bytes), read by the owner with acquire order: how many receives the peer has handled and posted
 * anew since the beginning. It gives room for as many new ones, and says that what they counted has
 * been counted. It only grows; a word that comes late is only old.
 *
 * <p><b>A queue pair that is lost</b> while another one to the same peer works is gone round, see
 * {@link QueuePairFailover}; the ends tell each other so by messages over the other one.
 *
 * <p><b>The places {@link #place}</b> take the messages, one for each receive, in the order in
 * which receives are used.
 */
final class VerbsControlLayout {
  /** Offset of the word that the peer writes. */
  static final long HANDLED = 0;

  private static final long PLACES = 64;

  /** Bytes of a message: a value, what it is, a number. */
  static final int MESSAGE_BYTES = 16;

  /** A counter, {@code number}, grows by {@code value}. */
  static final int ADD = 1;

  /** The sender closes its wire; nothing follows. */
  static final int GOODBYE = 2;

  /**
   * Queue pair {@code number} of those between the two ranks is lost, and stopped here; {@code
   * value} receives were handled, which is final.
   */
  static final int MOVED = 3;

  /** Queue pair {@code number} has failed with its lanes; nobody waits for them. */
  static final int GONE = 4;

  private static final long VALUE = 0;
  private static final long KIND = 8;
  private static final long NUMBER = 12;

  private static final VarHandle LONG = ValueLayout.JAVA_LONG.varHandle().withInvokeExactBehavior();

  private VerbsControlLayout() {}

  /** Bytes of the block of a queue pair with so many receives. */
  static long bytes(int receives) {
    return PLACES + ((long) receives * MESSAGE_BYTES + 63 & -64);
  }

  /** Offset of the place that belongs to a receive. */
  static long place(int receive) {
    return PLACES + (long) receive * MESSAGE_BYTES;
  }

  /** Reads the word with acquire order. */
  static long handled(MemorySegment block) {
    return (long) LONG.getAcquire(block, HANDLED);
  }

  static void message(MemorySegment memory, long at, int kind, int number, long value) {
    memory.set(ValueLayout.JAVA_LONG, at + VALUE, value);
    memory.set(ValueLayout.JAVA_INT, at + KIND, kind);
    memory.set(ValueLayout.JAVA_INT, at + NUMBER, number);
  }

  static int kind(MemorySegment memory, long at) {
    return memory.get(ValueLayout.JAVA_INT, at + KIND);
  }

  static int number(MemorySegment memory, long at) {
    return memory.get(ValueLayout.JAVA_INT, at + NUMBER);
  }

  static long value(MemorySegment memory, long at) {
    return memory.get(ValueLayout.JAVA_LONG, at + VALUE);
  }
}
