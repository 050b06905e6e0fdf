package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.Layout;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.cuda.put.DevicePut;
import org.ep4j.cuda.put.PutConfig;
import org.ep4j.execution.Execution;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Closes on an interrupted thread: close still waits, frees nothing in use, and frees all in the
 * end.
 */
@OnFakeDriver
@Timeout(60)
class InterruptedCloseTest {
  /** How long a test waits for an interrupt that close does not set aside. */
  private static final long LONGEST = TimeUnit.SECONDS.toNanos(2);

  @Test
  void theBufferWaitsForTheGpu() {
    OneRank.run(
        rank -> {
          rank.dispatch(Layout.FLAT); // allocates
          rank.buffer.barrier();
          FakeDriver.hold();
          rank.buffer.dispatch(
              Layout.FLAT,
              rank.tokens,
              rank.batch.routing,
              rank.dispatching().toBuilder().execution(Execution.ASYNCHRONOUS).build());
          Thread closing = Thread.currentThread();
          closing.interrupt();
          Thread gpu =
              Thread.ofPlatform()
                  .start(
                      () -> {
                        awaitCalm(closing);
                        FakeDriver.release();
                      });
          rank.buffer.close();
          assertThat(Thread.interrupted()).isTrue();
          gpu.join();
        });
    assertThat(FakeDriver.live()).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(strings = {"inproc", "tcp"})
  void theBufferWaitsForItsProxy(String wire) {
    ThreadRanks.run(
        2,
        group -> {
          ExpertBuffer buffer =
              ExpertBuffer.open(
                  group, Batch.config(OneRank.TOKENS).ranksPerNode(1).wire(wire).build());
          Thread.currentThread().interrupt();
          buffer.close();
          assertThat(Thread.interrupted()).isTrue();
        });
    assertThat(FakeDriver.live()).isEmpty();
  }

  @Test
  void memoryForPutsWaitsForTheOtherRanks() {
    AtomicReference<Thread> closing = new AtomicReference<>();
    AtomicBoolean closed = new AtomicBoolean();
    ThreadRanks.run(
        2,
        group -> {
          DevicePut puts =
              DevicePut.open(
                  group,
                  new PutConfig(
                      "direct", new PutShape(256, 1, 1), 0, "auto", Duration.ofMinutes(1)));
          if (group.rank() == 0) {
            Thread.currentThread().interrupt();
            closing.set(Thread.currentThread());
            puts.close();
            closed.set(true);
            assertThat(Thread.interrupted()).isTrue();
          } else {
            while (closing.get() == null) {
              Thread.onSpinWait();
            }
            awaitCalm(closing.get());
            assertThat(closed).isFalse();
            puts.close();
          }
        });
    assertThat(FakeDriver.live()).isEmpty();
  }

  /** Returns when the thread has taken its interrupt. */
  private static void awaitCalm(Thread interrupted) {
    long start = System.nanoTime();
    while (interrupted.isInterrupted() && System.nanoTime() - start < LONGEST) {
      Thread.onSpinWait();
    }
  }
}
