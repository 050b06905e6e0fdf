package org.ep4j.wire.tcp.pipe;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.engine.host.kernel.ForkedJvm;
import org.junit.jupiter.api.Test;

class TlsPipeTest {
  @Test
  void newKeysPassWhileTheOutputOfBothEndsIsFull() throws Exception {
    assertThat(ForkedJvm.run(KeyUpdates.class, List.of("-XX:TieredStopAtLevel=1"), List.of()))
        .containsExactly("arrived", "arrived");
  }
}
