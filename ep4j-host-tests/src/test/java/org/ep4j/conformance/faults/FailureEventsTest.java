package org.ep4j.conformance.faults;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.tuple;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import jdk.jfr.consumer.RecordedEvent;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.conformance.wire.FaultPlan;
import org.ep4j.conformance.world.FlightRecording;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.group.rendezvous.Rendezvous;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Isolated;

/**
 * What goes wrong in a job is in the flight recorder. Recordings see all of the JVM, so no other
 * test may run.
 */
@Isolated
class FailureEventsTest {
  private static final int HIDDEN = 128;
  private static final int CUT_AT_STEP = 400;

  /** Timeout for a silent rank; on a busy machine no other rank may be this late. */
  private static final Duration SHORT = Duration.ofSeconds(1);

  private static final Duration LONG = Duration.ofSeconds(30);

  /** The body of a test. */
  private interface Body {
    void run() throws Exception;
  }

  @AfterEach
  void legalAgain() {
    FaultyWireProvider.planLegal();
  }

  @Test
  void aSilentRankIsATimeoutItsNoticeAndAReset() throws Exception {
    FlightRecording recording = record(() -> ThreadRanks.run(2, FailureEventsTest::missABarrier));

    List<RecordedEvent> timeouts = recording.events("Timeout");
    assertThat(timeouts)
        .extracting(e -> e.getInt("rank"), e -> e.getInt("peer"), e -> e.getString("operation"))
        .containsExactlyInAnyOrder(tuple(0, 1, "barrier"), tuple(1, 0, "barrier"));
    RecordedEvent first = timeouts.getFirst();
    assertThat(first.getString("phase")).isEqualTo("entry");
    assertThat(first.getString("peerState")).isEqualTo("is silent");
    assertThat(first.getBoolean("peerDead")).isFalse();
    assertThat(first.getLong("number")).isEqualTo(1);
    assertThat(first.getDuration("waited")).isGreaterThanOrEqualTo(SHORT);

    assertThat(recording.events("Abort"))
        .extracting(
            e -> e.getInt("rank"),
            e -> e.getBoolean("received"),
            e -> e.getInt("from"),
            e -> e.getInt("failedRank"),
            e -> e.getString("state"))
        .containsExactlyInAnyOrder(
            tuple(0, false, 0, 1, "is silent"), tuple(1, true, 0, 1, "is silent"));

    assertThat(recording.events("Reset"))
        .extracting(
            e -> e.getInt("rank"), e -> e.getString("excluded"), e -> e.getString("failure"))
        .containsExactlyInAnyOrder(tuple(0, "", ""), tuple(1, "", ""));
    assertThat(recording.events("Reset")).allMatch(e -> e.getDuration().isPositive());
  }

  @Test
  void aSkippedRankIsAMaskAndItsReturnToo() throws Exception {
    FlightRecording recording = record(() -> ThreadRanks.run(2, FailureEventsTest::missADispatch));

    assertThat(recording.events("Mask"))
        .extracting(
            e -> e.getInt("rank"),
            e -> e.getInt("peer"),
            e -> e.getBoolean("masked"),
            e -> e.getString("reason"))
        .containsExactly(tuple(0, 1, true, "is silent"), tuple(0, 1, false, "by cleanMask()"));
    assertThat(recording.events("Timeout")).isEmpty();
  }

  @Test
  void aCutPathIsALostLaneOnBothRanks() throws Exception {
    AtomicInteger opened = new AtomicInteger();
    FaultyWireProvider.plan(
        rank -> {
          FaultPlan plan = FaultPlan.legal(rank);
          return opened.getAndIncrement() < 2 && rank == 1 ? plan.dropping(0, CUT_AT_STEP) : plan;
        });

    FlightRecording recording = record(() -> ThreadRanks.run(2, FailureEventsTest::loseALane));

    List<RecordedEvent> losses = recording.events("LaneLoss");
    assertThat(losses)
        .extracting(e -> e.getInt("rank"), e -> e.getInt("peer"))
        .contains(tuple(0, 1), tuple(1, 0))
        .allMatch(ends -> ends.equals(tuple(0, 1)) || ends.equals(tuple(1, 0)));
    assertThat(losses)
        .extracting(e -> e.getInt("rank") + "/" + e.getInt("lane"))
        .doesNotHaveDuplicates();
    assertThat(losses)
        .allMatch(e -> e.getString("reason").contains("dropped at step " + CUT_AT_STEP))
        .allMatch(e -> !e.getString("wire").isEmpty());
  }

  @Test
  void anOpenBufferIsAnEventWithItsSizes() throws Exception {
    FlightRecording recording =
        record(() -> ThreadRanks.run(2, group -> open(group, config(LONG)).close()));

    List<RecordedEvent> openings = recording.events("Open");
    assertThat(openings)
        .extracting(
            e -> e.getInt("rank"),
            e -> e.getInt("ranks"),
            e -> e.getString("engine"),
            e -> e.getInt("hidden"),
            e -> e.getBoolean("rejoined"))
        .containsExactlyInAnyOrder(
            tuple(0, 2, "host", HIDDEN, false), tuple(1, 2, "host", HIDDEN, false));
    assertThat(openings).allMatch(e -> e.getLong("symmetricBytes") > 2 * HIDDEN);
    assertThat(openings).allMatch(e -> e.getDuration().isPositive());
  }

  @Test
  void aRankThatRejoinsIsAReadmissionAndAnOpening() throws Exception {
    FlightRecording recording = record(FailureEventsTest::loseAndReadmit);

    assertThat(recording.events("Readmit"))
        .extracting(
            e -> e.getInt("rank"), e -> e.getString("excluded"), e -> e.getString("failure"))
        .containsExactlyInAnyOrder(tuple(0, "", ""), tuple(1, "", ""));
    assertThat(recording.events("Open"))
        .filteredOn(e -> e.getBoolean("rejoined"))
        .extracting(e -> e.getInt("rank"))
        .containsExactly(2);
    assertThat(recording.events("Reset"))
        .extracting(e -> e.getInt("rank"), e -> e.getString("excluded"))
        .containsExactlyInAnyOrder(tuple(0, "2"), tuple(1, "2"));
  }

  private static void missABarrier(Group group) {
    try (ExpertBuffer buffer = open(group, config(SHORT))) {
      if (group.rank() == 1) {
        group.barrier(LONG);
      }
      assertThatExceptionOfType(PeerTimeoutException.class).isThrownBy(buffer::barrier);
      if (group.rank() == 0) {
        group.barrier(LONG);
      }
      group.barrier(LONG);
      buffer.reset();
      buffer.barrier();
      group.barrier(LONG);
    }
  }

  private static void missADispatch(Group group) {
    try (ExpertBuffer buffer = open(group, config(SHORT))) {
      if (group.rank() == 0) {
        dispatch(buffer);
      }
      group.barrier(LONG);
      buffer.cleanMask();
      group.barrier(LONG);
      dispatch(buffer);
      group.barrier(LONG);
    }
  }

  private static void loseALane(Group group) {
    BufferConfig config =
        config(LONG).toBuilder().ranksPerNode(1).wire(FaultyWireProvider.NAME).build();
    try (ExpertBuffer buffer = open(group, config)) {
      assertThatExceptionOfType(PeerTimeoutException.class)
          .isThrownBy(
              () -> {
                for (int i = 0; i < 2 * CUT_AT_STEP; i++) {
                  buffer.barrier();
                }
              });
      buffer.reset();
      buffer.barrier();
    }
  }

  /** The ranks are processes to each other, and threads of this JVM. */
  private static void loseAndReadmit() throws Exception {
    int ranks = 3;
    Group[] groups = new Group[ranks];
    ExpertBuffer[] buffers = new ExpertBuffer[ranks];
    BufferConfig config = config(LONG).toBuilder().experts(ranks).build();
    try (Rendezvous rendezvous =
            Rendezvous.open(
                GroupConfig.builder()
                    .size(ranks)
                    .rendezvous("127.0.0.1", 0)
                    .secret(UUID.randomUUID().toString())
                    .joinTimeout(LONG)
                    .livenessTimeout(Duration.ofSeconds(5))
                    .build());
        ExecutorService threads = Executors.newFixedThreadPool(ranks)) {
      each(
          threads,
          ranks,
          rank -> {
            groups[rank] = Group.join(rendezvous.configOf(rank));
            buffers[rank] = open(groups[rank], config);
          });
      groups[2].fail("over");
      ExpertBuffer lost = buffers[2];
      each(
          threads,
          2,
          rank -> {
            while (groups[rank].isAlive(2)) {
              Thread.sleep(1);
            }
            buffers[rank].reset();
          });
      each(
          threads,
          ranks,
          rank -> {
            if (rank == 2) {
              groups[rank] = Group.rejoin(rendezvous.configOf(rank));
              buffers[rank] = ExpertBuffer.rejoin(groups[rank], config);
            } else {
              groups[rank].readmit(LONG);
              buffers[rank].readmit();
            }
          });
      each(threads, ranks, rank -> buffers[rank].close());
      lost.close();
      each(threads, ranks, rank -> groups[rank].close());
    }
  }

  /** The code of a rank. */
  private interface RankStep {
    void run(int rank) throws Exception;
  }

  private static void each(ExecutorService threads, int ranks, RankStep step) throws Exception {
    List<Future<Boolean>> all = new ArrayList<>();
    for (int rank = 0; rank < ranks; rank++) {
      int own = rank;
      all.add(
          threads.submit(
              () -> {
                step.run(own);
                return true;
              }));
    }
    for (Future<Boolean> one : all) {
      one.get(LONG.toSeconds(), TimeUnit.SECONDS);
    }
  }

  private static ExpertBuffer open(Group group, BufferConfig config) {
    return ExpertBuffer.open(group, config);
  }

  private static BufferConfig config(Duration timeout) {
    return BufferConfig.builder()
        .engine("host")
        .hidden(HIDDEN)
        .topK(1)
        .experts(2)
        .highThroughput(2)
        .lowLatency(LowLatencyConfig.builder().maxTokens(2).masking(true).build())
        .timeout(timeout)
        .build();
  }

  private static void dispatch(ExpertBuffer buffer) {
    buffer.lowLatencyDispatch(
        Tensor.ofBf16(new short[2 * HIDDEN], 2, HIDDEN),
        Routing.of(new long[] {0, 1}, new float[] {1, 1}, 1),
        LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build());
  }

  private static FlightRecording record(Body body) throws Exception {
    try (FlightRecording recording = new FlightRecording()) {
      body.run();
      recording.stop();
      return recording;
    }
  }
}
