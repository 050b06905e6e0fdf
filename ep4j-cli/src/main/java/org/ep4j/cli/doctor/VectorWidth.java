package org.ep4j.cli.doctor;

import jdk.incubator.vector.VectorShape;

/** The vector size. A separate class, because loading it needs the incubator module. */
final class VectorWidth {
  private VectorWidth() {}

  /** Bits of the vectors that the JVM prefers on this processor. */
  static int preferredBits() {
    return VectorShape.preferredShape().vectorBitSize();
  }
}
