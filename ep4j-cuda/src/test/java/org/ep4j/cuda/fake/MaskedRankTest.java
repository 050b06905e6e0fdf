package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.System.Logger.Level;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.conformance.world.FlightRecording;
import org.ep4j.conformance.world.LogLines;
import org.ep4j.conformance.world.LogLines.Line;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.RowFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What rank 0 says of rank 1, which its kernels have masked. */
@OnFakeDriver
@Timeout(60)
class MaskedRankTest {
  /** How rank 1 ends. */
  private enum End {
    CLOSE_BUFFER,
    LEAVE,
    FAIL
  }

  @Test
  void aRankThatHasLeftIsMaskedWithoutAWarning() {
    assertThat(linesOnce(End.LEAVE))
        .singleElement()
        .satisfies(
            line -> {
              assertThat(line.level()).isEqualTo(Level.INFO);
              assertThat(line.text())
                  .contains("rank 1 has left the group in good order at", "and is masked")
                  .doesNotContain("dead");
            });
  }

  @Test
  void aRankThatHasClosedItsBufferIsMaskedWithoutAWarning() {
    assumeTrue(Boolean.getBoolean("ep4j.full"), "waits for 5 s; -Dep4j.full=true runs it");
    assertThat(linesOnce(End.CLOSE_BUFFER))
        .singleElement()
        .satisfies(
            line -> {
              assertThat(line.level()).isEqualTo(Level.INFO);
              assertThat(line.text()).contains("rank 1 has closed its buffer and is masked");
            });
  }

  @Test
  void aRankThatHasFailedIsMaskedWithAWarningAndItsReason() {
    assertThat(linesOnce(End.FAIL))
        .singleElement()
        .satisfies(
            line -> {
              assertThat(line.level()).isEqualTo(Level.WARNING);
              assertThat(line.text()).contains("rank 1 is dead (failed: expert 17 exploded");
            });
  }

  @Test
  void aMaskIsInTheFlightRecorder() {
    try (FlightRecording recording = new FlightRecording()) {
      List<Line> _ = linesOnce(End.FAIL);
      recording.stop();
      assertThat(recording.events("Mask"))
          .singleElement()
          .satisfies(
              mask -> {
                assertThat(mask.getInt("rank")).isZero();
                assertThat(mask.getInt("peer")).isOne();
                assertThat(mask.getBoolean("masked")).isTrue();
                assertThat(mask.getString("reason")).contains("expert 17 exploded");
              });
    }
  }

  private static List<Line> linesOnce(End end) {
    try (LogLines log = new LogLines("org.ep4j.cuda")) {
      CountDownLatch closed = new CountDownLatch(1);
      CountDownLatch masked = new CountDownLatch(1);
      ThreadRanks.run(
          2,
          group -> {
            ExpertBuffer buffer = openBuffer(group);
            if (group.rank() == 0) {
              await(closed);
              awaitDeparture(group, end);
              mask(buffer);
              masked.countDown();
              buffer.close();
              return;
            }
            if (end == End.FAIL) {
              group.fail("expert 17 exploded");
            }
            buffer.close();
            closed.countDown();
            if (end == End.CLOSE_BUFFER) {
              await(masked);
            }
          });
      return log.lines();
    }
  }

  private static void await(CountDownLatch latch) throws InterruptedException {
    assertThat(latch.await(30, TimeUnit.SECONDS)).isTrue();
  }

  private static void awaitDeparture(Group group, End end) {
    while (end == End.LEAVE && !group.hasLeft(1) || end == End.FAIL && group.isAlive(1)) {
      Thread.onSpinWait();
    }
  }

  private static ExpertBuffer openBuffer(Group group) {
    LowLatencyConfig lowLatency =
        LowLatencyConfig.builder().maxTokens(OneRank.TOKENS).masking(true).build();
    return ExpertBuffer.open(group, Batch.config().lowLatency(lowLatency).build());
  }

  /** Runs a dispatch in which the kernels of rank 0 mask rank 1. */
  private static void mask(ExpertBuffer buffer) {
    FakeKernels.mask(1);
    try (CudaDevice device = CudaDevice.open(0);
        Batch batch = new Batch(device, OneRank.TOKENS)) {
      batch.fill(0, 1);
      LowLatencyDispatchOptions options =
          LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();
      buffer.lowLatencyDispatch(batch.x, batch.routing, options);
      assertThat(buffer.isMasked(1)).isTrue();
    }
  }
}
