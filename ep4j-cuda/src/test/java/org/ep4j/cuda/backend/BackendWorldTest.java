package org.ep4j.cuda.backend;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.PeerLostException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.memory.Participants;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A step that each rank does alone, with a common end. */
@Timeout(60)
class BackendWorldTest {
  private static final Duration TIMEOUT = Duration.ofMillis(200);
  private static final String KERNELS = "the kernels";

  @SuppressWarnings("NullAway") // the test uses no device
  private static BackendWorld world(Group group) {
    return new BackendWorld(Participants.ofAll(group), null, TIMEOUT, List.of());
  }

  @Test
  void slowCompilationOfARankIsAwaited() {
    AtomicInteger done = new AtomicInteger();
    ThreadRanks.run(
        2,
        group -> {
          int result =
              world(group)
                  .together(
                      KERNELS,
                      () -> {
                        if (group.rank() == 1) {
                          long end = System.nanoTime() + TIMEOUT.multipliedBy(5).toNanos();
                          while (System.nanoTime() - end < 0) {
                            LockSupport.parkNanos(TIMEOUT.toNanos());
                          }
                        }
                        done.incrementAndGet();
                        return 7 + group.rank();
                      });
          assertThat(result).isEqualTo(7 + group.rank());
          assertThat(done).as("ranks that had finished when one continued").hasValue(2);
        });
  }

  @Test
  void failureOfOneRankIsReportedOnAll() {
    RuntimeException own = new IllegalStateException("no compiler");
    ThreadRanks.run(
        3,
        group -> {
          BackendWorld world = world(group);
          if (group.rank() == 1) {
            assertThatThrownBy(() -> world.together(KERNELS, () -> fail(own))).isSameAs(own);
          } else {
            assertThatThrownBy(() -> world.together(KERNELS, group::rank))
                .isInstanceOf(EngineUnavailableException.class)
                .hasMessage(
                    ErrorCode.RANK_OPEN_FAILED.message(
                        "rank 1: the kernels cannot be prepared: no compiler"));
          }
          assertThat(own).hasNoSuppressedExceptions();
        });
  }

  @Test
  void commonFailureThrowsOwnException() {
    ThreadRanks.run(
        2,
        group -> {
          RuntimeException own = new IllegalArgumentException("too many experts");
          assertThatThrownBy(() -> world(group).together(KERNELS, () -> fail(own))).isSameAs(own);
        });
  }

  @Test
  void rankThatDiesMeanwhileIsNamed() {
    ThreadRanks.run(
        2,
        group -> {
          if (group.rank() == 1) {
            group.fail("out of luck");
          } else {
            assertThatThrownBy(() -> world(group).together(KERNELS, group::rank))
                .isInstanceOf(PeerLostException.class)
                .hasMessageContaining("rank 1")
                .hasMessageContaining("out of luck");
          }
        });
  }

  private static int fail(RuntimeException problem) {
    throw problem;
  }
}
