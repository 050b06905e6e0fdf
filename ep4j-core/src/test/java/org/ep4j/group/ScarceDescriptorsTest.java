package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.engine.host.kernel.ForkedJvm;
import org.junit.jupiter.api.Test;

class ScarceDescriptorsTest {
  @Test
  void aRendezvousOutlivesALackOfDescriptorsAndNamesIt() throws Exception {
    ForkedJvm.Ended run =
        ForkedJvm.run(
            List.of("sh", "-c", "ulimit -n 200; exec \"$@\"", "sh"),
            RendezvousWithoutDescriptors.class,
            List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx64m"),
            List.of());

    assertThat(run.lines()).endsWith("joined").filteredOn("joined"::equals).hasSize(2);
    assertThat(run.lines())
        .anyMatch(line -> line.contains("cannot accept connections (out of file descriptors?): "));
    assertThat(run.exitCode()).isZero();
  }
}
