package org.ep4j.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Isolated;

/** Recordings see all of the JVM, so no other test may run. */
@Isolated
class FlightRecorderTest {
  private static final int HIDDEN = 128;
  private static final int TOKENS = 3;
  private static final long LATE_NANOS = 30_000_000;

  @TempDir Path scratch;

  @Test
  void anOperationIsAnEventThatNamesTheLateRank() throws Exception {
    List<RecordedEvent> events = record(Duration.ZERO);

    List<RecordedEvent> dispatches = of(events, "dispatch", 0);
    assertThat(dispatches).hasSize(1);
    RecordedEvent dispatch = dispatches.getFirst();
    assertThat(dispatch.getLong("rows")).isEqualTo(2 * TOKENS);
    assertThat(dispatch.getLong("bytes")).isEqualTo(2 * TOKENS * 2 * HIDDEN);
    assertThat(dispatch.getInt("longestWaitFor")).isEqualTo(1);
    assertThat(dispatch.getDuration("longestWait").toNanos()).isGreaterThan(LATE_NANOS / 2);
    assertThat(dispatch.getDuration("waited"))
        .isGreaterThanOrEqualTo(dispatch.getDuration("longestWait"));
    assertThat(dispatch.getDuration()).isGreaterThanOrEqualTo(dispatch.getDuration("longestWait"));
    long waits =
        events.stream()
            .filter(e -> e.getEventType().getName().equals("org.ep4j.Wait"))
            .filter(e -> e.getInt("rank") == 0 && e.getString("operation").equals("dispatch"))
            .filter(e -> e.getInt("peer") == 1 && e.getLong("number") == dispatch.getLong("number"))
            .mapToLong(e -> e.getDuration("waited").toNanos())
            .sum();
    assertThat(waits).isEqualTo(dispatch.getDuration("waited").toNanos());
    assertThat(of(events, "combine", 1)).hasSize(1);
    assertThat(of(events, "low-latency dispatch", 1)).hasSize(1);
  }

  @Test
  void shortOperationsAreNoEvents() throws Exception {
    assertThat(record(Duration.ofMinutes(1)))
        .extracting(e -> e.getEventType().getName())
        .doesNotContain("org.ep4j.Operation", "org.ep4j.Wait")
        .contains("org.ep4j.Open");
  }

  private List<RecordedEvent> record(Duration threshold) throws Exception {
    Path file = scratch.resolve("run.jfr");
    try (Recording recording = new Recording()) {
      recording.enable("org.ep4j.Operation").withThreshold(threshold);
      recording.enable("org.ep4j.Wait");
      recording.start();
      ThreadRanks.run(2, FlightRecorderTest::rank);
      recording.stop();
      recording.dump(file);
    }
    return RecordingFile.readAllEvents(file);
  }

  private static List<RecordedEvent> of(List<RecordedEvent> events, String name, int rank) {
    return events.stream()
        .filter(e -> e.getEventType().getName().equals("org.ep4j.Operation"))
        .filter(e -> e.getString("operation").equals(name) && e.getInt("rank") == rank)
        .toList();
  }

  private static void rank(Group group) {
    BufferConfig config =
        BufferConfig.builder()
            .engine(EngineName.HOST)
            .hidden(HIDDEN)
            .topK(2)
            .placement(ExpertPlacement.blocks(2, 2))
            .highThroughput(
                HighThroughputConfig.builder().maxTokens(TOKENS).rowDType(DType.BF16).build())
            .lowLatency(TOKENS)
            .build();
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
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
}
