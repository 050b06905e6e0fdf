package org.ep4j.rdma.verbs;

import java.time.Duration;
import java.util.stream.IntStream;
import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.ThreadWorld;
import org.ep4j.conformance.World;
import org.junit.jupiter.api.condition.EnabledIf;

/** Ranks of several nodes, of random sizes, over the ports that they choose by themselves. */
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
    // Everything is emulated there, and slow.
    return new ThreadWorld(Duration.ofMinutes(4));
  }
}
