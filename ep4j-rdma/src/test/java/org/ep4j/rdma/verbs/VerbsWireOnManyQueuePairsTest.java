package org.ep4j.rdma.verbs;

import java.time.Duration;
import org.ep4j.conformance.wire.WireKit;
import org.ep4j.conformance.wire.WireSetup;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.ep4j.rdma.softverbs.SoftVerbs;
import org.junit.jupiter.api.condition.EnabledIf;

@EnabledIf(value = "org.ep4j.rdma.verbs.Fabric#present", disabledReason = Fabric.REASON)
class VerbsWireOnManyQueuePairsTest extends WireKit {
  @Override
  protected WireSetup setup() {
    return WireSetup.of("verbs-2x4");
  }

  @Override
  protected boolean variant() {
    // Emulated devices: the wires of the core run the rest in each build.
    return SoftVerbs.isSelected();
  }

  @Override
  protected World world() {
    return new ThreadWorld(Duration.ofMinutes(6));
  }
}
