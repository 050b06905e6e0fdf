package org.ep4j.conformance;

import java.time.Duration;
import java.util.List;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.conformance.world.ThreadWorld;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class HostSoakTest {
  private static final NodeArguments ONE_NODE = new NodeArguments(0, "auto");
  private static final NodeArguments TWO_NODES = new NodeArguments(2, "tcp");

  /** A long loop in a build; ten thousand operations in a full run. */
  private static final String OPERATIONS = String.valueOf(TestScale.part(10_000));

  @Test
  void thousandsOfOperationsLeaveMemoryAsItWas() {
    new ThreadWorld().run(2, SoakJob.class, ONE_NODE.behind(List.of("host", OPERATIONS, "true")));
  }

  @Test
  void thousandsOfOperationsAcrossNodesLeaveMemoryAsItWas() {
    new ThreadWorld().run(3, SoakJob.class, TWO_NODES.behind(List.of("host", OPERATIONS, "true")));
  }

  /** Runs with {@code -Dgroups=soak} only, like the next test. */
  @Test
  @Tag("soak")
  void manyOperationsAcrossNodesLeaveMemoryAsItWas() {
    new ProcessWorld(Duration.ofMinutes(30), Duration.ofSeconds(10))
        .run(
            3,
            SoakJob.class,
            TWO_NODES.behind(List.of("host", System.getProperty("ep4j.soak", "100000"), "true")));
  }

  /** Runs with {@code -Dgroups=soak} only; {@code -Dep4j.soak} sets the number. */
  @Test
  @Tag("soak")
  void aMillionOperationsLeaveMemoryAsItWas() {
    new ProcessWorld(Duration.ofMinutes(30), Duration.ofSeconds(10))
        .run(
            2,
            SoakJob.class,
            ONE_NODE.behind(List.of("host", System.getProperty("ep4j.soak", "1000000"), "true")));
  }
}
