package org.ep4j.rdma.verbs;

import java.time.Duration;
import java.util.stream.IntStream;
import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.condition.EnabledIf;

/** The engine kit over verbs with several nodes of random sizes and default ports. */
@EnabledIf(value = "org.ep4j.rdma.verbs.Fabric#present", disabledReason = Fabric.REASON)
class HostEngineOverVerbsTest extends EngineKit {
  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected String wire() {
    return "verbs";
  }

  @Override
  protected IntStream worldSizes() {
    return IntStream.rangeClosed(2, 4);
  }

  @Override
  protected int cases() {
    return 9;
  }

  @Override
  protected World world() {
    // The virtual machine is emulated and slow.
    return new ThreadWorld(Duration.ofMinutes(4));
  }
}
