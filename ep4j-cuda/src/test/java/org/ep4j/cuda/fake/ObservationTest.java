package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.world.FlightRecording;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.group.rendezvous.JobObserver;
import org.ep4j.group.rendezvous.Rendezvous;
import org.ep4j.observe.ObservationLog;
import org.ep4j.observe.RankObservation;
import org.ep4j.observe.Verdict;
import org.ep4j.observe.WorldObservation;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a buffer shows of the words that its kernels count. */
@OnFakeDriver
@Timeout(60)
class ObservationTest {
  private static final Duration LONG = Duration.ofSeconds(30);

  /** Time of the first operation's end, and from window to window. */
  private static final long BEGAN = 1_000_000;

  private static final long WINDOW = 200_000;

  @Test
  void anOpenBufferHasItsExpertsAndNoWindow() {
    OneRank.run(
        rank -> {
          FakeDriver.forgetCalls();
          RankObservation seen = rank.buffer.observe();
          assertThat(FakeDriver.calls()).isEmpty();
          assertThat(seen.rank()).isZero();
          assertThat(seen.ranks()).isOne();
          assertThat(seen.windows()).isEmpty();
          assertThat(seen.localExperts()).isEqualTo(rank.buffer.config().experts());
          for (int local = 0; local < seen.localExperts(); local++) {
            assertThat(seen.expert(local)).isEqualTo(local);
            assertThat(seen.tokens(local)).isZero();
          }
        });
  }

  @Test
  void windowsAreInTheFlightRecorder() {
    try (FlightRecording recording = new FlightRecording()) {
      OneRank.runBesideAnother(
          rank -> {
            FakeWindows kernels = kernels(rank);
            kernels.complete(1, 700, 2, 30, BEGAN, BEGAN + WINDOW);
            kernels.complete(1, 50, 3, 4, BEGAN, BEGAN + 3 * WINDOW);
            recording.stop();
          },
          rank -> {});
      assertThat(recording.events("Window"))
          .extracting(
              e -> e.getInt("rank"),
              e -> e.getLong("number"),
              e -> e.getDuration("elapsed").toNanos(),
              e -> e.getLong("rows"),
              e -> e.getInt("longestWaitFor"),
              e -> e.getDuration("waited").toNanos())
          .containsExactly(
              tuple(0, 0L, WINDOW, 30L, 1, 700L), tuple(0, 1L, 2 * WINDOW, 4L, 1, 50L));
      assertThat(recording.events("WindowWait"))
          .extracting(
              e -> e.getInt("rank"), e -> e.getInt("peer"), e -> e.getDuration("waited").toNanos())
          .containsExactly(tuple(0, 1, 700L), tuple(0, 1, 50L));
    }
  }

  @Test
  void windowsAreWhatKernelsCountedInThem() {
    OneRank.runBesideAnother(
        rank -> {
          FakeWindows kernels = kernels(rank);
          assertThat(kernels.words()).isEqualTo(2 + rank.buffer.observe().localExperts());
          kernels.complete(1, 700, 2, 30, BEGAN, BEGAN + WINDOW);
          kernels.complete(1, 50, 3, 4, BEGAN, BEGAN + 3 * WINDOW);
          FakeDriver.forgetCalls();
          RankObservation seen = rank.buffer.observe();
          assertThat(FakeDriver.calls()).isEmpty();
          assertThat(seen.windows()).extracting(window -> window.number()).containsExactly(0L, 1L);
          assertThat(seen.windows())
              .extracting(window -> window.nanos())
              .containsExactly(WINDOW, 2 * WINDOW);
          assertThat(seen.windows()).extracting(window -> window.rows()).containsExactly(30L, 4L);
          assertThat(seen.windows())
              .extracting(window -> window.waitedFor(1))
              .containsExactly(700L, 50L);
          assertThat(seen.tokens(2)).isEqualTo(30);
          assertThat(seen.tokens(3)).isEqualTo(4);
        },
        _ -> {});
  }

  @Test
  void theLastTenWindowsAreKept() {
    OneRank.runBesideAnother(
        rank -> {
          FakeWindows kernels = kernels(rank);
          for (int w = 0; w < 30; w++) {
            kernels.complete(1, 100 + w, 1, 1, BEGAN, BEGAN + (w + 1) * WINDOW);
          }
          List<RankObservation.Window> windows = rank.buffer.observe().windows();
          assertThat(windows).hasSize(ObservationLog.KEPT);
          for (int i = 0; i < windows.size(); i++) {
            assertThat(windows.get(i).number()).isEqualTo(20 + i);
            assertThat(windows.get(i).nanos()).isEqualTo(WINDOW);
            assertThat(windows.get(i).waitedFor(1)).isEqualTo(120 + i);
          }
          assertThat(rank.buffer.observe().tokens(1)).isEqualTo(30);
        },
        _ -> {});
  }

  /** Threads of a rank may wait for its own blocks. */
  @Test
  void aRankWaitsNotForItself() {
    OneRank.run(
        rank -> {
          kernels(rank).complete(0, 700, 2, 30, BEGAN, BEGAN + WINDOW);
          assertThat(rank.buffer.observe().windows().getFirst().waitedFor(0)).isZero();
        });
  }

  @Test
  void aResetForgetsWindowsAndKeepsTokens() {
    OneRank.runBesideAnother(
        rank -> {
          FakeWindows kernels = kernels(rank);
          for (int w = 0; w < 4; w++) {
            kernels.complete(1, 900, 3, 7, BEGAN, BEGAN + (w + 1) * WINDOW);
          }
          rank.buffer.reset();
          assertThat(kernels.operations()).isZero();
          RankObservation seen = rank.buffer.observe();
          assertThat(seen.windows()).isEmpty();
          assertThat(seen.tokens(3)).isEqualTo(28);
          kernels.complete(1, 10, 3, 2, 9 * BEGAN, 9 * BEGAN + WINDOW);
          seen = rank.buffer.observe();
          assertThat(seen.windows()).hasSize(1);
          assertThat(seen.windows().getFirst().number()).isZero();
          assertThat(seen.windows().getFirst().nanos()).isEqualTo(WINDOW);
          assertThat(seen.windows().getFirst().rows()).isEqualTo(2);
          assertThat(seen.windows().getFirst().waitedFor(1)).isEqualTo(10);
          assertThat(seen.tokens(3)).isEqualTo(30);
        },
        rank -> rank.buffer.reset());
  }

  @Test
  void aClosedBufferShowsItsLastWindows() {
    List<RankObservation> seen = new ArrayList<>();
    ThreadRanks.run(
        1,
        group -> {
          ExpertBuffer buffer = OneRank.openBuffer(group);
          seen.add(buffer.observe());
          buffer.close();
          seen.add(buffer.observe());
        });
    assertThat(seen.get(1).encode()).isEqualTo(seen.get(0).encode());
  }

  @Test
  void returningRanksBeginTogether() throws Exception {
    BufferConfig config = Batch.config(OneRank.TOKENS).timeout(ReturningRanks.LONG).build();
    try (ReturningRanks ranks = new ReturningRanks(3, config)) {
      ranks.lose(2);
      ranks.start(2);
      ranks.onLive(ranks::takeIn);
      ranks.onLive(
          rank -> {
            RankObservation seen = ranks.buffer(rank).observe();
            assertThat(seen.rank()).isEqualTo(rank);
            assertThat(seen.ranks()).isEqualTo(3);
            assertThat(seen.windows()).isEmpty();
          });
    }
  }

  /** What {@code ./ep4j top} asks a job. */
  @Test
  void observersOfTheJobSeeTheBuffer() throws Exception {
    String secret = UUID.randomUUID().toString();
    GroupConfig config =
        GroupConfig.builder().size(1).rendezvous("127.0.0.1", 0).secret(secret).build();
    try (Rendezvous rendezvous = Rendezvous.open(config);
        Group group = Group.join(rendezvous.configOf(0));
        JobObserver observer = JobObserver.open(rendezvous.address(), secret, LONG)) {
      try (ExpertBuffer _ = OneRank.openBuffer(group)) {
        WorldObservation seen = WorldObservation.decode(buffersOf(observer));
        assertThat(seen.ranks()).isOne();
        assertThat(seen.verdict().cause()).isEqualTo(Verdict.Cause.TOO_EARLY);
      }
      assertThat(buffersOf(observer)).isEmpty();
    }
  }

  private static List<byte[]> buffersOf(JobObserver observer) throws Exception {
    return Objects.requireNonNull(observer.ask(LONG).ofRank().get(0));
  }

  private static FakeWindows kernels(OneRank rank) {
    rank.buffer.lowLatencyDispatch(
        rank.batch.x, rank.batch.routing, rank.lowLatencyDispatching(false));
    return new FakeWindows(rank.buffer.worldSize());
  }
}
