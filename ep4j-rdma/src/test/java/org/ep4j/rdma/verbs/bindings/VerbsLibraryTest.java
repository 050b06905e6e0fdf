package org.ep4j.rdma.verbs.bindings;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankProcesses;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.junit.jupiter.api.Test;

class VerbsLibraryTest {
  private static final Duration LIMIT = Duration.ofMinutes(2);

  @Test
  void anotherLibraryInItsPlaceIsNamed() {
    try (RankProcesses ranks =
        new ProcessWorld(LIMIT, Duration.ofSeconds(30))
            .start(
                1,
                LibraryJob.class,
                List.of(),
                rank -> Map.of(RdmaSettings.LIBRARY, "libm.so.6"))) {
      ranks.awaitOutput(0, "name a libibverbs.so.1 in EP4J_IB_LIBRARY", LIMIT);
      assertThat(ranks.output(0)).contains("problem: libm.so.6 has no ibv_");
    }
  }
}
