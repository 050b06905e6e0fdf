package org.ep4j.conformance.wire;

import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

class EncryptedTcpWireTest extends WireKit {
  @Override
  protected WireSetup setup() {
    return WireSetup.of("tcp").withEncryption();
  }

  @Override
  protected World world() {
    return new ThreadWorld();
  }

  @Override
  protected boolean variant() {
    return true;
  }
}
