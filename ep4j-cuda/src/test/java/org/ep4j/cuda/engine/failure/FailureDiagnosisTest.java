package org.ep4j.cuda.engine.failure;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.engine.launch.Phase;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.world.Members;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.memory.NativeMemory;
import org.ep4j.observe.TimeoutLog;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A group of threads, and words that a kernel would have written. Needs no GPU. */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FailureDiagnosisTest {
  private static final int RANKS = 3;

  /** This rank has called once, the others twice. */
  private static final int BEHIND = 1;

  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final long LATE_MILLIS = 100;
  private static final long TIME_LEFT = Duration.ofSeconds(5).toNanos();

  // As in protocol.cuh.
  private static final long EPOCH = 8;
  private static final long PHASE = 16;
  private static final long PEER = 24;
  private static final long EXPECTED = 32;
  private static final long SEEN = 40;
  private static final long LEFT = 64;
  private static final long ATTRIBUTED = 72;

  private final CountDownLatch named = new CountDownLatch(1);
  private final CountDownLatch listens = new CountDownLatch(1);

  /** By rank; complete once the script of rank 0 runs. */
  private final CallLog[] logs = new CallLog[RANKS];

  /** Actions of rank 0; the others wait for their end. */
  private interface Script {
    void run(Group group, Case record) throws Exception;
  }

  /** Words of rank 0's kernel, and the diagnosis that interprets them. */
  private record Case(
      HostWords words, MemorySegment memory, CallLog calls, FailureDiagnosis diagnosis) {
    /** A wait for a rank failed {@code left} nanoseconds before its deadline. */
    void waited(int peer, long left) {
      put(EPOCH, 7);
      put(PHASE, Phase.ROWS.ordinal());
      put(PEER, peer);
      put(EXPECTED, 7);
      put(SEEN, 5);
      put(LEFT, left);
      put(ATTRIBUTED, 7);
      put(0, HostWords.STATE_TIMEOUT);
    }

    private void put(long at, long value) {
      NativeMemory.putLongRelease(memory, at, value);
    }

    /** What kernels read about a rank: nonzero if waits for it must end. */
    long gone(int rank) {
      long at = words.goneOnDevice() + (long) rank * Long.BYTES;
      return NativeMemory.getLongAcquire(at);
    }

    RuntimeException notified() {
      diagnosis.awaitLossNotice();
      return diagnosis.ofTimeout("dispatch");
    }
  }

  private void onRankZero(Script script) {
    onRankZero(script, named);
  }

  /**
   * @param lastRank latch that the last rank awaits before it leaves; the others stay until the end
   */
  private void onRankZero(Script script, CountDownLatch lastRank) {
    ThreadRanks.run(
        RANKS,
        group -> {
          try (Arena arena = Arena.ofConfined();
              CallLog calls = CallLog.open(group, Nodes.one(RANKS), TIMEOUT)) {
            for (int call = 0; call < (group.rank() == BEHIND ? 1 : 2); call++) {
              calls.add(operation(OperationLayout.DISPATCH));
            }
            logs[group.rank()] = calls;
            group.barrier(TIMEOUT);
            if (group.rank() != 0) {
              await(group.rank() == RANKS - 1 ? lastRank : named);
              return;
            }
            MemorySegment memory = arena.allocate(HostWords.bytes(RANKS), Long.BYTES);
            HostWords words = new HostWords(memory, memory.address(), () -> {}, RANKS);
            Members members = new Members(group);
            AbortNotices notices = new AbortNotices(group, members, words, false);
            try (FailureDiagnosis diagnosis =
                new FailureDiagnosis(
                    words, members, 0, config(), calls, notices, new TimeoutLog(0))) {
              script.run(group, new Case(words, memory, calls, diagnosis));
            } finally {
              listens.countDown();
              named.countDown();
            }
          }
        });
  }

  private static void await(CountDownLatch latch) throws InterruptedException {
    assertThat(latch.await(TIMEOUT.toSeconds(), TimeUnit.SECONDS)).isTrue();
  }

  private static Operation operation(long kind) {
    return new Operation().begin(kind).set(OperationLayout.HANDLE, 1);
  }

  private static BufferConfig config() {
    return BufferConfig.builder().hidden(128).topK(1).experts(RANKS).highThroughput(8).build();
  }

  private static void runLate(CheckedRunnable what) {
    Thread.ofPlatform()
        .start(
            () -> {
              try {
                Thread.sleep(LATE_MILLIS);
                what.run();
              } catch (Exception e) {
                throw new IllegalStateException(e);
              }
            });
  }

  private interface CheckedRunnable {
    void run() throws Exception;
  }

  @Test
  void missingRankIsNamed() {
    onRankZero(
        (group, record) -> {
          record.waited(1, -1);
          assertThat(record.notified())
              .isInstanceOfSatisfying(
                  PeerTimeoutException.class,
                  e -> {
                    assertThat(e.peer()).isEqualTo(1);
                    assertThat(e.phase()).isEqualTo("rows");
                    assertThat(e.peerDead()).isFalse();
                  })
              .hasMessageContaining("rank 1 is silent")
              .hasMessageContaining("expected progress 7, seen 5");
        });
  }

  /** A wire detects closed connections immediately, the group a moment later. */
  @Test
  void rankThatIsFoundLostShortlyAfterIsNamed() {
    onRankZero(
        (group, record) -> {
          record.waited(1, TIME_LEFT);
          runLate(listens::countDown);
          assertThat(record.notified())
              .isInstanceOfSatisfying(
                  PeerTimeoutException.class,
                  e -> {
                    assertThat(e.peer()).isEqualTo(RANKS - 1);
                    assertThat(e.peerState()).startsWith("has left the group in good order at");
                    assertThat(e.peerDead()).isFalse();
                  });
        },
        listens);
  }

  /** A rank that was stopped until the others had declared it lost. */
  @Test
  void rankThatLearnsLateThatItIsLostNamesNoPeer() {
    onRankZero(
        (group, record) -> {
          record.waited(1, TIME_LEFT);
          runLate(() -> group.fail("stopped for too long"));
          assertThat(record.notified())
              .hasMessageContaining("does not wait for this rank (0), which is out of the group")
              .hasMessageNotContaining("silent");
        });
  }

  @Test
  void rankExcludedByTheLastResetIsNotNamed() {
    onRankZero(
        (group, record) -> {
          record.diagnosis.exclude(new boolean[] {false, false, true});
          listens.countDown();
          while (group.isAlive(RANKS - 1)) {
            Thread.onSpinWait();
          }
          record.waited(1, -1);
          assertThat(record.notified())
              .isInstanceOfSatisfying(
                  PeerTimeoutException.class, e -> assertThat(e.peer()).isEqualTo(1));
        },
        listens);
  }

  /** Another rank of the same operation may be slow; only waits for the closed rank end. */
  @Test
  void rankThatHasClosedItsBufferIsNamedAndItsWaitsEnd() {
    onRankZero(
        (group, record) -> {
          record.diagnosis.noticeClosed(System.nanoTime());
          assertThat(record.gone(BEHIND)).isZero();
          logs[BEHIND].publishClosed();
          while (record.gone(BEHIND) == 0) {
            record.diagnosis.noticeClosed(System.nanoTime());
          }
          assertThat(record.gone(RANKS - 1)).isZero();
          record.waited(RANKS - 1, TIME_LEFT);
          assertThat(record.notified())
              .isInstanceOfSatisfying(
                  PeerTimeoutException.class,
                  e -> {
                    assertThat(e.peer()).isEqualTo(BEHIND);
                    assertThat(e.peerDead()).isFalse();
                    assertThat(e.peerState()).isEqualTo("has closed its buffer");
                  });
          // After a reset the rank may be another process.
          record.diagnosis.exclude(new boolean[RANKS]);
          assertThat(record.gone(BEHIND)).isZero();
        });
  }

  @Test
  void waitForOwnRowsNamesTheRankThatIsFurthestBehind() {
    onRankZero(
        (group, record) -> {
          record.waited(0, -1);
          assertThat(record.notified())
              .isInstanceOfSatisfying(
                  PeerTimeoutException.class, e -> assertThat(e.peer()).isEqualTo(BEHIND));
        });
  }

  @Test
  void rankThatCallsAnotherOperationIsNamedWithIt() {
    onRankZero(
        (group, record) -> {
          record.calls.clear();
          record.calls.add(operation(OperationLayout.COMBINE));
          record.waited(1, -1);
          assertThat(record.notified())
              .isInstanceOf(ConfigurationMismatchException.class)
              .hasCauseInstanceOf(PeerTimeoutException.class);
        });
  }
}
