package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.engine.host.kernel.ForkedJvm;
import org.junit.jupiter.api.Test;

/**
 * Once warm, low latency allocates nothing. In a JVM of its own: what other tests have run decides
 * which calls C2 inlines, and vectors that pass a call are objects.
 */
class LowLatencyAllocationTest {
  @Test
  void warmOperationsAllocateNothing() throws Exception {
    List<String> lines =
        ForkedJvm.run(
            LowLatencyAllocations.class,
            List.of("--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED"),
            List.of());
    assertThat(lines).filteredOn(line -> line.startsWith("bytes: ")).hasSize(2);
    assertThat(lines).filteredOn("bytes: 0"::equals).as(lines.toString()).hasSize(2);
  }
}
