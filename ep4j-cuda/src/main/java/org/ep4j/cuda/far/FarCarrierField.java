package org.ep4j.cuda.far;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.proxy.Proxy;

/** Fields of {@code FarCarrier} in {@code kernels/far_carrier.cuh}, 8 bytes each; rings end it. */
enum FarCarrierField {
  COUNTERS,
  LIBRARY,
  WINDOW,
  WORDS,
  RINGS;

  /** Bytes of a {@code FarCarrier}. */
  static final int BYTES = RINGS.ordinal() * Long.BYTES + Proxy.PARAMETER_BYTES;

  /** Among the 8-byte fields of {@code CommandRings} their number. */
  private static final int NUMBER = 6;

  /** Sets it. */
  void set(MemorySegment carrier, long value) {
    carrier.setAtIndex(ValueLayout.JAVA_LONG, ordinal(), value);
  }

  /** The {@code CommandRings}. */
  static MemorySegment rings(MemorySegment carrier) {
    return carrier.asSlice(RINGS.ordinal() * (long) Long.BYTES, Proxy.PARAMETER_BYTES);
  }

  /** Sets the number of rings alone. */
  static void setRings(MemorySegment carrier, int rings) {
    carrier.setAtIndex(ValueLayout.JAVA_LONG, RINGS.ordinal() + NUMBER, rings);
  }
}
