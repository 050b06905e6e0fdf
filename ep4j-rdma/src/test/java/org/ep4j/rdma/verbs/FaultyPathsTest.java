package org.ep4j.rdma.verbs;

import org.ep4j.config.EngineName;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.parallel.Isolated;

/** Paths of the host engine. Recordings see all of the JVM. */
@Isolated
@EnabledIf(value = "org.ep4j.rdma.verbs.Fabric#hasCables", disabledReason = Fabric.REASON)
class FaultyPathsTest extends FaultyPathsKit {
  @Override
  String engine() {
    return EngineName.HOST;
  }
}
