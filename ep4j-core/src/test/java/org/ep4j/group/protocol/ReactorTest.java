package org.ep4j.group.protocol;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.ep4j.engine.host.kernel.ForkedJvm;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Isolated;

/** Isolated: groups of other tests have the same logger. */
@Isolated
class ReactorTest {
  private static final long LIMIT_SECONDS = 60;

  @Test
  void aThreadThatCannotLogWhyItEndsTellsItsGroup() throws Exception {
    Logger logger = Logger.getLogger("org.ep4j.group");
    Handler failing = new FailingHandler();
    logger.addHandler(failing);
    try {
      var told = new CompletableFuture<String>();
      var reactor = new Reactor("test", Duration.ofMillis(20), Duration.ofSeconds(2));
      reactor.start(
          () -> {
            throw new IllegalStateException("a tick failed");
          },
          told::complete);

      assertThat(told.get(LIMIT_SECONDS, TimeUnit.SECONDS)).contains("a tick failed");
    } finally {
      logger.removeHandler(failing);
    }
  }

  @Test
  void aProcessThatHasLoggedNothingCanLogThatNoDescriptorIsFree() throws Exception {
    List<String> lines =
        ForkedJvm.run(
                List.of("sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"),
                NoFreeDescriptor.class,
                List.of(),
                List.of())
            .lines();

    assertThat(lines)
        .anyMatch(
            line -> line.contains("cannot accept connections") && line.contains("open files"));
  }

  private static final class FailingHandler extends Handler {
    @Override
    public void publish(LogRecord record) {
      throw new Error("no record can be written");
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  }
}
