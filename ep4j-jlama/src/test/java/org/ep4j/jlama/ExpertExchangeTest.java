package org.ep4j.jlama;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.github.tjake.jlama.model.mixtral.MixtralConfig;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.Ep4jException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Two ranks as threads, without a model around their exchange. */
class ExpertExchangeTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  private static final float[] ROW = new float[128];

  /** The first expert of each rank. */
  private static final Routing ROUTING = Routing.of(new int[] {0, 2}, new float[] {.5f, .5f}, 2);

  private static final After UNCHANGED = (_, result) -> result;

  static {
    Arrays.fill(ROW, 3);
  }

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

  /** A token of each rank for an expert of each rank returns as it was. */
  private static void assertThatRowsReturn(ExpertExchange exchange, Phase phase) {
    assertThat(exchange.agree(phase)).isEqualTo(phase);
    assertThat(exchange.exchange(ROW, ROUTING, (_, rows) -> rows)).isEqualTo(ROW);
  }

  private static void assertInterrupted(ThrowingCallable call) {
    assertThatThrownBy(call).isInstanceOf(Ep4jException.class).hasMessageContaining("interrupted");
    assertThat(Thread.interrupted()).isTrue();
  }

  @ParameterizedTest
  @EnumSource(names = {"DECODE", "PREFILL"})
  void anInterruptedStepEndsTheCallAndNotTheExchange(Phase phase) {
    var interrupted = new CountDownLatch(1);
    onTwoRanks(
        UNCHANGED,
        (exchange, _, rank) -> {
          assertThatRowsReturn(exchange, phase);
          exchange.agree(phase);
          if (rank == 0) {
            Thread.currentThread().interrupt();
            assertInterrupted(() -> exchange.exchange(ROW, ROUTING, (_, rows) -> rows));
            interrupted.countDown();
          } else {
            interrupted.await();
            try {
              exchange.exchange(ROW, ROUTING, (_, rows) -> rows);
            } catch (Ep4jException e) {
              // Or it masks rank 0.
            }
          }
          assertThatRowsReturn(exchange, Phase.PREFILL);
          assertThatRowsReturn(exchange, Phase.DECODE);
        });
  }

  /** The other rank took the agreement as made. */
  @Test
  void anInterruptedAgreementIsFollowedByAReset() {
    var interrupted = new CountDownLatch(1);
    var resets = new AtomicInteger();
    onTwoRanks(
        (method, result) -> {
          resets.addAndGet(method.equals("reset") ? 1 : 0);
          return result;
        },
        (exchange, _, rank) -> {
          if (rank == 0) {
            Thread.currentThread().interrupt();
            assertInterrupted(() -> exchange.agree(Phase.PREFILL));
            interrupted.countDown();
          } else {
            interrupted.await();
            assertThat(exchange.agree(Phase.SERVE)).isEqualTo(Phase.PREFILL);
          }
          assertThatRowsReturn(exchange, Phase.PREFILL);
        });
    assertThat(resets).hasValue(2);
  }

  @Test
  void aResetThatFailsIsRepeated() {
    var resets = new AtomicInteger();
    onTwoRanks(
        (method, result) -> {
          if (method.equals("reset") && resets.incrementAndGet() <= 2) {
            throw new IllegalStateException("the test ends it");
          }
          return result;
        },
        (exchange, _, rank) -> {
          exchange.agree(Phase.DECODE);
          if (rank == 0) {
            assertThatThrownBy(() -> exchange.exchange(new float[1], ROUTING, (_, rows) -> rows))
                .isInstanceOf(IllegalArgumentException.class);
          }
          assertThatThrownBy(() -> exchange.agree(Phase.PREFILL)).hasMessage("the test ends it");
          assertThatRowsReturn(exchange, Phase.PREFILL);
        });
  }

  @Test
  void aLiveRankThatWasMaskedTakesPartAgain() {
    onTwoRanks(
        UNCHANGED,
        (exchange, buffer, rank) -> {
          if (rank == 0) {
            buffer.updateMask(1, true);
          }
          assertThatRowsReturn(exchange, Phase.DECODE);
          assertThat(buffer.isMasked(1 - rank)).isFalse();
        });
  }
}
