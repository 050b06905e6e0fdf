package org.ep4j.cuda.internode;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.internode.proxy.Proxy;

/**
 * Fields of {@code InternodeTransport} in {@code kernels/internode/internode_transport.cuh}, 8
 * bytes each; the rings are last.
 */
enum InternodeTransportField {
  COUNTERS,
  LIBRARY,
  WINDOW,
  WORDS,
  RINGS;

  /** Bytes of an {@code InternodeTransport}. */
  static final int BYTES = RINGS.ordinal() * Long.BYTES + Proxy.PARAMETER_BYTES;

  /** Index of the number of rings among the 8-byte fields of {@code CommandRings}. */
  private static final int NUMBER = 6;

  /** Sets the field. */
  void set(MemorySegment transport, long value) {
    transport.setAtIndex(ValueLayout.JAVA_LONG, ordinal(), value);
  }

  /** The {@code CommandRings}. */
  static MemorySegment rings(MemorySegment transport) {
    return transport.asSlice(RINGS.ordinal() * (long) Long.BYTES, Proxy.PARAMETER_BYTES);
  }

  /** Sets only the number of rings. */
  static void setRings(MemorySegment transport, int rings) {
    transport.setAtIndex(ValueLayout.JAVA_LONG, RINGS.ordinal() + NUMBER, rings);
  }
}
