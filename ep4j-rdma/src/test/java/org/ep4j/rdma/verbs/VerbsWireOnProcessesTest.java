package org.ep4j.rdma.verbs;

import java.time.Duration;
import org.ep4j.conformance.wire.WireKit;
import org.ep4j.conformance.wire.WireSetup;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.World;
import org.ep4j.rdma.softverbs.SoftVerbs;
import org.junit.jupiter.api.condition.EnabledIf;

@EnabledIf(value = "org.ep4j.rdma.verbs.Fabric#present", disabledReason = Fabric.REASON)
class VerbsWireOnProcessesTest extends WireKit {
  @Override
  protected WireSetup setup() {
    return WireSetup.of("verbs");
  }

  @Override
  protected boolean variant() {
    // Emulated devices: the wires of the core run the rest in each build.
    return SoftVerbs.isSelected();
  }

  @Override
  protected World world() {
    // The virtual machine is emulated and slow.
    return new ProcessWorld(Duration.ofMinutes(15), Duration.ofSeconds(30));
  }
}
