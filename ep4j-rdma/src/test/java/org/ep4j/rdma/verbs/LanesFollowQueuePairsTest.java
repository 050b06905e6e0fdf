package org.ep4j.rdma.verbs;

import org.ep4j.config.EngineName;
import org.junit.jupiter.api.condition.EnabledIf;

/** Lanes and queue pairs of the host engine. */
@EnabledIf(value = "org.ep4j.rdma.verbs.Fabric#present", disabledReason = Fabric.REASON)
class LanesFollowQueuePairsTest extends QueuePairsKit {
  @Override
  String engine() {
    return EngineName.HOST;
  }

  /** Most of a chunk. */
  @Override
  long share() {
    return 400_000;
  }
}
