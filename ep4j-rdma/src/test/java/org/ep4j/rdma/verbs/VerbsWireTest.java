package org.ep4j.rdma.verbs;

import java.time.Duration;
import org.ep4j.conformance.wire.WireKit;
import org.ep4j.conformance.wire.WireSetup;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.ep4j.rdma.softverbs.SoftVerbs;
import org.junit.jupiter.api.condition.EnabledIf;

@EnabledIf(value = "org.ep4j.rdma.verbs.Fabric#present", disabledReason = Fabric.REASON)
class VerbsWireTest extends WireKit {
  @Override
  protected WireSetup setup() {
    if (SoftVerbs.isSelected()) {
      TestScale.onlyInFull("more queue pairs run the same checks over emulated devices");
    }
    return WireSetup.of("verbs-1x1");
  }

  @Override
  protected World world() {
    return new ThreadWorld(Duration.ofMinutes(6));
  }
}
