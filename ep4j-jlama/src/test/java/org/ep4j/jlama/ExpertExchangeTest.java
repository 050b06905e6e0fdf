package org.ep4j.jlama;

import static org.assertj.core.api.Assertions.assertThat;

import com.github.tjake.jlama.model.mixtral.MixtralConfig;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.time.Duration;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Two ranks as threads, without a model around their exchange. */
class ExpertExchangeTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  @TempDir static Path directory;

  @BeforeAll
  static void write() throws IOException {
    TinyMixtral.random(1).write(directory);
  }

  @FunctionalInterface
  private interface Body {
    void with(ExpertExchange exchange, ExpertBuffer buffer, int rank) throws Exception;
  }

  /** What comes after a call of a buffer: makes another result of its result. */
  @FunctionalInterface
  private interface After {
    @Nullable Object call(String method, @Nullable Object result);
  }

  private static void onTwoRanks(After after, Body body) {
    MixtralConfig model = Checkpoint.open(directory).config();
    ThreadRanks.run(
        2,
        group -> {
          ExpertPlacement placement = ExpertExchange.placement(model, group.size());
          ExpertBuffer buffer =
              ExpertBuffer.open(group, ExpertExchange.config(model, placement, TIMEOUT));
          try (var exchange = new ExpertExchange(group, placement, around(buffer, after))) {
            body.with(exchange, buffer, group.rank());
          }
        });
  }

  private static ExpertBuffer around(ExpertBuffer buffer, After after) {
    return (ExpertBuffer)
        Proxy.newProxyInstance(
            ExpertBuffer.class.getClassLoader(),
            new Class<?>[] {ExpertBuffer.class},
            (_, method, arguments) -> {
              try {
                return after.call(method.getName(), method.invoke(buffer, arguments));
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
            });
  }

  @Test
  void ranksMayPauseBetweenStepsForLongerThanTheTimeout() {
    Duration timeout = Duration.ofMillis(50);
    onTwoRanks(
        (_, result) ->
            result instanceof BufferConfig config
                ? config.toBuilder().timeout(timeout).build()
                : result,
        (exchange, _, rank) -> {
          if (rank == 0) {
            Thread.sleep(timeout.multipliedBy(4));
          }
          assertThat(exchange.agree(Phase.SERVE)).isEqualTo(Phase.SERVE);
        });
  }
}
