package org.ep4j.cli.launch;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class OrphanGuardTest {
  @Test
  void aGuardThatIsClosedSignalsNoProcess() throws Exception {
    Process rank = new ProcessBuilder("sleep", "1000").start();
    try {
      OrphanGuard guard = OrphanGuard.start(Duration.ZERO);
      guard.add(rank);
      List<ProcessHandle> shells =
          ProcessHandle.current()
              .children()
              .filter(child -> child.info().commandLine().orElse("").contains("ep4j-end-ranks"))
              .toList();
      assertThat(shells).isNotEmpty();
      guard.close();
      for (ProcessHandle shell : shells) {
        shell.onExit().get(20, TimeUnit.SECONDS);
      }
      assertThat(rank.isAlive()).isTrue();
    } finally {
      rank.destroyForcibly().waitFor();
    }
  }
}
