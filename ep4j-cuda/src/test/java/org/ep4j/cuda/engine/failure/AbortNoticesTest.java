package org.ep4j.cuda.engine.failure;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.ep4j.engine.Interrupts;
import org.ep4j.engine.world.AbortReport;
import org.ep4j.engine.world.Members;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.memory.NativeMemory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Ranks of a group of threads notify each other, without a GPU. */
@Timeout(60)
class AbortNoticesTest {
  private static final int RANKS = 3;
  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final long LATER = 8;

  private CyclicBarrier step = new CyclicBarrier(RANKS);

  /** A rank's notices, and the words that its kernels read. */
  private record Rank(
      Group group, int number, Members members, AbortNotices notices, HostWords words) {
    static RuntimeException interrupted() {
      return Interrupts.error("dispatch", "end", 7, "work on the GPU");
    }

    boolean kernelsAbort() {
      return NativeMemory.getLongAcquire(words.abortOnDevice()) != 0;
    }

    boolean kernelsSkip(int peer) {
      return NativeMemory.getLongAcquire(words.goneOnDevice() + (long) peer * Long.BYTES) != 0;
    }

    void tellInterrupt() {
      notices.publish(interrupted(), true);
    }

    AbortReport report() {
      return Objects.requireNonNull(notices.report());
    }
  }

  private interface Script {
    void run(Rank rank) throws Exception;
  }

  private void onAllRanks(boolean masking, Script script) {
    onAllRanks(RANKS, masking, script);
  }

  private void onAllRanks(int ranks, boolean masking, Script script) {
    step = new CyclicBarrier(ranks);
    ThreadRanks.run(
        ranks,
        group -> {
          Members members = new Members(group);
          try (Arena arena = Arena.ofShared()) {
            MemorySegment memory = arena.allocate(HostWords.bytes(ranks), Long.BYTES);
            HostWords words = new HostWords(memory, memory.address(), () -> {}, ranks);
            try (AbortNotices notices = new AbortNotices(group, members, words, masking)) {
              notices.open(TIMEOUT);
              meet();
              script.run(new Rank(group, group.rank(), members, notices, words));
              meet();
            }
          }
        });
  }

  private void meet() throws Exception {
    step.await(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
  }

  @Test
  void waitsEndAndTheReasonIsThere() {
    onAllRanks(
        false,
        rank -> {
          assertThat(rank.notices.report()).isNull();
          meet();
          if (rank.number == 1) {
            rank.tellInterrupt();
          }
          meet();
          assertThat(rank.kernelsAbort()).isEqualTo(rank.number != 1);
          assertThat(rank.notices.any()).isEqualTo(rank.number != 1);
          if (rank.number != 1) {
            assertThat(rank.report())
                .isEqualTo(
                    new AbortReport(
                        1, false, "has aborted (" + Rank.interrupted().getMessage() + ")"));
          }
        });
  }

  /** No rank tells all others itself. */
  @ParameterizedTest
  @ValueSource(ints = {2, 5, 16, 37})
  void aNoticeReachesAllRanks(int ranks) {
    int last = ranks - 1;
    onAllRanks(
        ranks,
        false,
        rank -> {
          if (rank.number == last) {
            rank.tellInterrupt();
          }
          meet();
          assertThat(rank.kernelsAbort()).isEqualTo(rank.number != last);
          assertThat(rank.notices.hasAborted(last)).isEqualTo(rank.number != last);
        });
  }

  /** Each rank fails because of the first one: its own notice would say nothing new. */
  @Test
  void ranksThatWereToldTellNoOther() {
    onAllRanks(
        false,
        rank -> {
          if (rank.number == 1) {
            rank.tellInterrupt();
          }
          meet();
          rank.tellInterrupt();
          meet();
          for (int peer = 0; peer < RANKS; peer++) {
            assertThat(rank.notices.hasAborted(peer)).isEqualTo(peer == 1 && rank.number != 1);
          }
        });
  }

  @Test
  void missingRankIsNamedByTheRankThatMissesIt() {
    onAllRanks(
        false,
        rank -> {
          if (rank.number == 1) {
            rank.notices.publish(
                new PeerTimeoutException("dispatch", "rows", 3, 2, 3, 2, 100, "is silent", false),
                true);
          }
          meet();
          if (rank.number == 0) {
            assertThat(rank.report())
                .isEqualTo(new AbortReport(2, false, "is silent, reported by rank 1"));
          } else if (rank.number == 2) {
            assertThat(rank.report().peer()).isEqualTo(1);
            assertThat(rank.report().state()).contains("its report: this rank is silent");
          }
        });
  }

  @Test
  void noticesFromBeforeAResetDoNotCount() {
    onAllRanks(
        false,
        rank -> {
          if (rank.number != 1) {
            rank.notices.restart(rank.notices.topic(), LATER);
          }
          meet();
          if (rank.number == 1) {
            rank.tellInterrupt();
          }
          meet();
          assertThat(rank.notices.any()).isFalse();
          assertThat(rank.kernelsAbort()).isFalse();
        });
  }

  /** Rank 1 has completed the reset, and fails again before the others have. */
  @Test
  void noticesForTheNextStartOutliveTheReset() {
    onAllRanks(
        false,
        rank -> {
          if (rank.number == 1) {
            rank.tellInterrupt();
            rank.notices.restart(rank.notices.topic(), LATER);
            rank.tellInterrupt();
          }
          meet();
          rank.notices.restart(rank.notices.topic(), LATER);
          rank.words.reset();
          assertThat(rank.kernelsAbort()).isFalse();
          rank.notices.endWaitsAgain();
          assertThat(rank.kernelsAbort()).isEqualTo(rank.number != 1);
          assertThat(rank.notices.hasAborted(1)).isEqualTo(rank.number != 1);
        });
  }

  @Test
  void afterAResetWordsStayClear() {
    onAllRanks(
        false,
        rank -> {
          if (rank.number == 1) {
            rank.tellInterrupt();
          }
          meet();
          rank.notices.restart(rank.notices.topic(), LATER);
          rank.words.reset();
          rank.notices.endWaitsAgain();
          assertThat(rank.kernelsAbort()).isFalse();
          assertThat(rank.notices.any()).isFalse();
        });
  }

  /** With masks the other ranks continue; kernels of the rank may still write if it is not idle. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void withMasksKernelsSkipAnIdleRank(boolean idle) {
    onAllRanks(
        true,
        rank -> {
          if (rank.number == 1) {
            rank.notices.publish(Rank.interrupted(), idle);
          }
          meet();
          assertThat(rank.kernelsAbort()).isFalse();
          assertThat(rank.kernelsSkip(1)).isEqualTo(idle && rank.number != 1);
          assertThat(rank.notices.any()).isEqualTo(rank.number != 1);
        });
  }

  @Test
  void longReasonsEndWithAWholeCharacter() {
    onAllRanks(
        false,
        rank -> {
          if (rank.number == 1) {
            rank.notices.publish(new IllegalStateException("€".repeat(2000)), true);
          }
          meet();
          if (rank.number != 1) {
            assertThat(rank.report().state()).matches("has aborted \\(€{300,}");
          }
        });
  }

  /** Ranks of the node on other hosts do not share the call log; the others read it there. */
  @Test
  void ranksOfOtherHostsLearnThatARankHasClosedItsBuffer() {
    onAllRanks(
        true,
        rank -> {
          Nodes nodes = HostNodes.one(rank.group, "aab");
          if (rank.number == 1) {
            rank.notices.publishClosed(nodes);
          }
          meet();
          assertThat(rank.notices.hasClosed(1)).isEqualTo(rank.number == 2);
          assertThat(rank.notices.hasAborted(1)).isFalse();
          assertThat(rank.notices.any()).isFalse();
          assertThat(rank.kernelsAbort()).isFalse();
          assertThat(rank.kernelsSkip(1)).as("by this notice alone").isFalse();
          // Another process takes the place of rank 1.
          rank.notices.restart(rank.notices.topic(), LATER);
          assertThat(rank.notices.hasClosed(1)).isFalse();
        });
  }
}
