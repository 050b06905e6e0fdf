package org.ep4j.cli.doctor;

import jdk.incubator.vector.VectorShape;

/** A class of its own: it can be loaded only where the incubator module is. */
final class VectorWidth {
  private VectorWidth() {}

  /** Bits of the vectors that the JVM prefers on this processor. */
  static int preferredBits() {
    return VectorShape.preferredShape().vectorBitSize();
  }
}
