package org.ep4j.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import jdk.jfr.consumer.RecordedEvent;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.conformance.world.FlightRecording;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.observe.RankObservation;
import org.ep4j.observe.TimeoutLog;
import org.ep4j.observe.WindowRecorder;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Isolated;

/** Recordings see all of the JVM, so no other test may run. */
@Isolated
class FlightRecorderTest {
  private static final int HIDDEN = 128;
  private static final int TOKENS = 3;
  private static final long LATE_NANOS = 30_000_000;

  /** The recorder reads another clock than {@code nanoTime}, of waits, and with another rate. */
  private static final Duration BETWEEN_CLOCKS = Duration.ofMillis(1);

  @Test
  void anOperationIsAnEventThatNamesTheLateRank() throws Exception {
    FlightRecording recording = record(Duration.ZERO);

    List<RecordedEvent> dispatches = operations(recording, "dispatch", 0);
    assertThat(dispatches).hasSize(1);
    RecordedEvent dispatch = dispatches.getFirst();
    assertThat(dispatch.getLong("rows")).isEqualTo(2 * TOKENS);
    assertThat(dispatch.getLong("bytes")).isEqualTo(2 * TOKENS * 2 * HIDDEN);
    assertThat(dispatch.getInt("longestWaitFor")).isEqualTo(1);
    assertThat(dispatch.getDuration("longestWait").toNanos()).isGreaterThan(LATE_NANOS / 2);
    assertThat(dispatch.getDuration("waited"))
        .isGreaterThanOrEqualTo(dispatch.getDuration("longestWait"));
    assertThat(dispatch.getDuration().plus(BETWEEN_CLOCKS))
        .isGreaterThanOrEqualTo(dispatch.getDuration("longestWait"));
    long waits =
        recording.events("Wait").stream()
            .filter(e -> e.getInt("rank") == 0 && e.getString("operation").equals("dispatch"))
            .filter(e -> e.getInt("peer") == 1 && e.getLong("number") == dispatch.getLong("number"))
            .mapToLong(e -> e.getDuration("waited").toNanos())
            .sum();
    assertThat(waits).isEqualTo(dispatch.getDuration("waited").toNanos());
    assertThat(operations(recording, "combine", 1)).hasSize(1);
    assertThat(operations(recording, "low-latency dispatch", 1)).hasSize(1);
  }

  @Test
  void shortOperationsAreNoEvents() throws Exception {
    FlightRecording recording = record(Duration.ofMinutes(1));

    assertThat(recording.events("Operation")).isEmpty();
    assertThat(recording.events("Wait")).isEmpty();
    assertThat(recording.events("Open")).isNotEmpty();
  }

  /** Of operations of any length, at any threshold. */
  @Test
  void windowsOfOperationsNameTheLateRank() throws Exception {
    try (FlightRecording recording = new FlightRecording()) {
      ThreadRanks.run(2, group -> lateRank(group, recording));

      assertThat(recording.events("Window"))
          .extracting(e -> e.getInt("rank"), e -> e.getLong("number"), e -> e.getInt("operations"))
          .containsExactlyInAnyOrder(tuple(0, 0L, 20), tuple(1, 0L, 20));
      RecordedEvent window =
          recording.events("Window").stream()
              .filter(e -> e.getInt("rank") == 0)
              .findFirst()
              .orElseThrow();
      assertThat(window.getInt("longestWaitFor")).isOne();
      assertThat(window.getDuration("elapsed")).isGreaterThan(window.getDuration("waited"));
      assertThat(recording.events("WindowWait"))
          .filteredOn(e -> e.getInt("rank") == 0)
          .extracting(e -> e.getInt("peer"), e -> e.getDuration("waited"))
          .containsExactly(tuple(1, window.getDuration("waited")));
    }
  }

  /** The recorder reads at the start and at the end of each recording. */
  @Test
  void eachWindowIsRecordedOnceAndAfterAResetTheirNumbersBeginAnew() {
    AtomicReference<RankObservation> seen = new AtomicReference<>(windows(0, 1, 2));
    try (WindowRecorder _ = WindowRecorder.start(seen::get)) {
      assertThat(recordedWindows()).containsExactly(0L, 1L, 2L);
      seen.set(windows(1, 2, 3));
      assertThat(recordedWindows()).containsExactly(3L);
      seen.set(windows(0));
      assertThat(recordedWindows()).containsExactly(0L);
    }
  }

  /**
   * Between two reads of the recorder, the new windows have reached the numbers of the old ones.
   */
  @Test
  void windowsAfterAResetAreRecordedAlsoWhereTheirNumbersHaveGoneOn() {
    AtomicReference<RankObservation> seen = new AtomicReference<>(windows(0, 1, 2));
    try (WindowRecorder _ = WindowRecorder.start(seen::get)) {
      assertThat(recordedWindows()).containsExactly(0L, 1L, 2L);
      seen.set(observation(1001, 0, 1, 2));
      assertThat(recordedWindows()).containsExactly(0L, 1L, 2L);
      seen.set(observation(1002, 0, 1, 2, 3));
      assertThat(recordedWindows()).containsExactly(0L, 1L, 2L, 3L);
    }
  }

  private static List<Long> recordedWindows() {
    try (FlightRecording recording = new FlightRecording()) {
      recording.stop();
      return recording.events("Window").stream().map(e -> e.getLong("number")).toList();
    }
  }

  private static RankObservation windows(long... numbers) {
    return observation(1000, numbers);
  }

  private static RankObservation observation(long nanos, long... numbers) {
    List<RankObservation.Window> windows =
        Arrays.stream(numbers)
            .mapToObj(number -> new RankObservation.Window(number, nanos, 0, new long[2]))
            .toList();
    return RankObservation.of(2, windows, new int[] {0}, new long[] {0}, new TimeoutLog(0));
  }

  private static void lateRank(Group group, FlightRecording recording) {
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config())) {
      for (int i = 0; i < 20; i++) {
        if (group.rank() == 1) {
          LockSupport.parkNanos(LATE_NANOS / 20);
        }
        buffer.barrier();
      }
      group.barrier(Duration.ofSeconds(30));
      if (group.rank() == 0) {
        recording.stop();
      }
      group.barrier(Duration.ofSeconds(30));
    }
  }

  private static FlightRecording record(Duration threshold) throws Exception {
    try (FlightRecording recording = new FlightRecording(threshold)) {
      ThreadRanks.run(2, FlightRecorderTest::rank);
      recording.stop();
      return recording;
    }
  }

  private static List<RecordedEvent> operations(FlightRecording recording, String name, int rank) {
    return recording.events("Operation").stream()
        .filter(e -> e.getString("operation").equals(name) && e.getInt("rank") == rank)
        .toList();
  }

  private static void rank(Group group) {
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config())) {
      Tensor x = Tensor.ofBf16(new short[TOKENS * HIDDEN], TOKENS, HIDDEN);
      Routing routing =
          new Routing(
              Tensor.of(new long[] {0, 1, 0, 1, 0, 1}, TOKENS, 2),
              Tensor.of(new float[] {1, 1, 1, 1, 1, 1}, TOKENS, 2));
      if (group.rank() == 1) {
        LockSupport.parkNanos(LATE_NANOS);
      }
      FlatDispatch dispatch = buffer.dispatch(x, routing);
      buffer.combine(dispatch.x(), dispatch.handle());
      buffer.lowLatencyDispatch(
          x, routing, LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build());
      buffer.barrier();
    }
  }

  private static BufferConfig config() {
    return BufferConfig.builder()
        .engine(EngineName.HOST)
        .hidden(HIDDEN)
        .topK(2)
        .placement(ExpertPlacement.blocks(2, 2))
        .highThroughput(
            HighThroughputConfig.builder().maxTokens(TOKENS).rowDType(DType.BF16).build())
        .lowLatency(TOKENS)
        .build();
  }
}
