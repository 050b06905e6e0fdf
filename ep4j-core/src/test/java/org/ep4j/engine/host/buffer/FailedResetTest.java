package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.HighThroughputTest.config;

import java.time.Duration;
import org.ep4j.ExpertBuffer;
import org.ep4j.engine.world.Members;
import org.ep4j.engine.world.SurvivorAgreement;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

/** A reset that not all ranks complete. */
class FailedResetTest {
  private static final Duration TIMEOUT = Duration.ofMillis(300);

  /** Longer than a test may take. */
  private static final Duration LONG = Duration.ofMinutes(2);

  /** The other ranks may still use numbers from before the reset. */
  @Test
  void theBufferIsNotUsableUntilAnotherReset() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().timeout(TIMEOUT).build())) {
            if (group.rank() == 0) {
              assertThatThrownBy(buffer::reset).isInstanceOf(RuntimeException.class);
              assertThatThrownBy(buffer::barrier)
                  .hasMessageStartingWith(ErrorCode.RESET_NEEDED.id())
                  .hasMessageContaining("reset");
            } else {
              // This rank agrees, and then does not arrive.
              Members members = new Members(group);
              SurvivorAgreement.ofSurvivors(
                      group, members, TIMEOUT.multipliedBy(2), new long[Recovery.AGREED_WORDS])
                  .close();
            }
            buffer.reset();
            buffer.barrier();
            assertThat(buffer.isMasked(0)).isFalse();
          }
        });
  }

  /** Another thread could take the place of this one between two steps of the reset. */
  @Test
  void noOtherThreadCallsCollectivesDuringAReset() {
    Group[] groups = new Group[2];
    ThreadRanks.run(
        2,
        group -> {
          groups[group.rank()] = group;
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().timeout(LONG).build())) {
            if (group.rank() == 0) {
              assertThatThrownBy(buffer::reset).isInstanceOf(GroupException.class);
            } else {
              // Rank 0 has formed its group of survivors, and waits for this rank there.
              try (Group live = group.survivors(LONG)) {
                assertThatThrownBy(() -> groups[0].barrier(TIMEOUT))
                    .hasMessageStartingWith(ErrorCode.GROUP_CONCURRENT_USE.id())
                    .hasMessageContaining("one of them for restarting a buffer");
                assertThat(live.size()).isEqualTo(2);
              }
            }
            group.barrier(LONG);
          }
        });
  }

  @Test
  void aResetDoesNotTakeBytesThatSurvivorsExchangeForAnotherPurpose() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().timeout(LONG).build())) {
            if (group.rank() == 0) {
              assertThatThrownBy(buffer::reset)
                  .hasMessageStartingWith(ErrorCode.COLLECTIVE_MISMATCH.id())
                  .hasMessageContaining("restarting a buffer");
            } else {
              try (Group live = group.survivors(LONG)) {
                assertThatThrownBy(() -> live.allGather(new byte[100], LONG))
                    .hasMessageStartingWith(ErrorCode.COLLECTIVE_MISMATCH.id());
              }
            }
            group.barrier(LONG);
          }
        });
  }
}
