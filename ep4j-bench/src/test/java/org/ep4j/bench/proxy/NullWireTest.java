package org.ep4j.bench.proxy;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class NullWireTest {
  @Test
  void aWireThatNoBufferCanNameOpensForTheBench() {
    try (NullWire wire = new NullWire(2, 1, 0, 0)) {
      assertThat(wire.checksum()).isZero();
    }
  }
}
