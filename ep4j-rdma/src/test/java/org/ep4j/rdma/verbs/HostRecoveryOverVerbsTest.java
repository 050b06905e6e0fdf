package org.ep4j.rdma.verbs;

import org.ep4j.config.EngineName;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/** The host engine recovers from faults of ranks over verbs. */
@EnabledIf(value = "org.ep4j.rdma.verbs.Fabric#hasCables", disabledReason = Fabric.REASON)
@EnabledIfSystemProperty(named = "ep4j.full", matches = "true")
class HostRecoveryOverVerbsTest extends RecoveryOverVerbsKit {
  @Override
  String engine() {
    return EngineName.HOST;
  }
}
