package org.ep4j.wire.direct;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import org.ep4j.wire.Counters;

/**
 * Control words of a rank that its peers access, in addition to its regions.
 *
 * <pre>
 * 0    state      written by the owner with release: 0 while its wire is open, then {@link #CLOSED}.
 *                 Read by peers with acquire before each piece of work
 * 128  counters   8 bytes each; added to by peers with release order, read by the owner with acquire
 * </pre>
 */
final class DirectControlLayout {
  static final long CLOSED = 1;

  private static final long STATE = 0;
  private static final long COUNTERS = 128;
  private static final VarHandle LONG = ValueLayout.JAVA_LONG.varHandle().withInvokeExactBehavior();

  private DirectControlLayout() {}

  static long bytes(int counters) {
    return COUNTERS + (long) counters * Long.BYTES;
  }

  static void close(MemorySegment control) {
    LONG.setRelease(control, STATE, CLOSED);
  }

  static boolean isClosed(MemorySegment control) {
    return (long) LONG.getAcquire(control, STATE) == CLOSED;
  }

  static Counters counters(MemorySegment control) {
    return new Counters(control.asSlice(COUNTERS));
  }
}
