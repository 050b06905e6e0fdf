package org.ep4j.cuda.far;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.proxy.Proxy;

/**
 * Fields of {@code InternodeTransport} in {@code kernels/internode_transport.cuh}, 8 bytes each;
 * rings end it.
 */
enum InternodeTransportField {
  COUNTERS,
  LIBRARY,
  WINDOW,
  WORDS,
  RINGS;

  /** Bytes of a {@code InternodeTransport}. */
  static final int BYTES = RINGS.ordinal() * Long.BYTES + Proxy.PARAMETER_BYTES;

  /** Among the 8-byte fields of {@code CommandRings} their number. */
  private static final int NUMBER = 6;

  /** Sets it. */
  void set(MemorySegment transport, long value) {
    transport.setAtIndex(ValueLayout.JAVA_LONG, ordinal(), value);
  }

  /** The {@code CommandRings}. */
  static MemorySegment rings(MemorySegment transport) {
    return transport.asSlice(RINGS.ordinal() * (long) Long.BYTES, Proxy.PARAMETER_BYTES);
  }

  /** Sets the number of rings alone. */
  static void setRings(MemorySegment transport, int rings) {
    transport.setAtIndex(ValueLayout.JAVA_LONG, RINGS.ordinal() + NUMBER, rings);
  }
}
