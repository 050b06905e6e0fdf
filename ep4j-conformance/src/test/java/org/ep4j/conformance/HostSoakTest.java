package org.ep4j.conformance;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class HostSoakTest {
  @Test
  void tenThousandOperationsLeaveMemoryAsItWas() {
    new ThreadWorld().run(2, SoakJob.class, List.of("host", "10000", "true"));
  }

  /** Runs with {@code -Dgroups=soak} only; {@code -Dep4j.soak} is another number. */
  @Test
  @Tag("soak")
  void aMillionOperationsLeaveMemoryAsItWas() {
    new ProcessWorld(Duration.ofMinutes(30), Duration.ofSeconds(10))
        .run(2, SoakJob.class, List.of("host", System.getProperty("ep4j.soak", "1000000"), "true"));
  }
}
