package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.LongSupplier;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.BoundedCall;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.memory.Participants;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@OnFakeDriver
@Timeout(60)
class AbandonedThreadsTest {
  @Test
  void statisticsCountThreadsThatALibraryHolds() {
    CountDownLatch held = new CountDownLatch(1);
    OneRank.run(
        rank -> {
          assertThat(rank.buffer.statistics().abandonedThreads()).isZero();
          try (Group group = Group.inProcess(1).getFirst()) {
            Duration limit = Duration.ofMillis(100);
            BackendWorld world =
                new BackendWorld(Participants.ofAll(group), rank.device, limit, List.of());
            LongSupplier call =
                () -> {
                  try {
                    held.await();
                  } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                  }
                  return 0;
                };
            assertThatThrownBy(() -> BoundedCall.call(world, "foo_init", limit, call))
                .isInstanceOf(Ep4jException.class)
                .hasMessageStartingWith(ErrorCode.LIBRARY_CALL_STUCK.id());
          }
          assertThat(rank.buffer.statistics().abandonedThreads()).isEqualTo(1);
          held.countDown();
          while (rank.buffer.statistics().abandonedThreads() > 0) {
            Thread.onSpinWait();
          }
        });
  }
}
