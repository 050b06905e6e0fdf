package org.ep4j.rdma.ucx;

import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.time.Duration;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.rdma.ucx.bindings.UcxLibrary;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.support.CollectiveStep;
import org.junit.jupiter.api.Test;

class UcxConnectionSetupTest {
  private static final Duration LIMIT = Duration.ofSeconds(20);
  private static final WireConfig CONFIG =
      WireConfig.builder().timeout(Duration.ofMillis(500)).build();
  private static final String ERROR = "rank 0: ranks [1] did not answer over UCX within 500 ms";

  /** Greeting has used its whole timeout; the others still have to hear why it failed. */
  @Test
  void aRankThatDoesNotAnswerIsNamedOnAllRanks() {
    assumeTrue(UcxLibrary.problem().isEmpty(), UcxLibrary.problem());
    ThreadRanks.run(
        2,
        LIMIT,
        group -> {
          if (group.rank() == 0) {
            assertThatThrownBy(() -> new UcxConnectionSetup(group, CONFIG).open())
                .isInstanceOf(WireException.class)
                .hasMessageContaining(ERROR);
          } else {
            beSilent(group);
          }
        });
  }

  /** Takes part in all exchanges and answers nothing over UCX. */
  private static void beSilent(Group group) throws InterruptedException {
    try (Arena arena = Arena.ofShared()) {
      UcxContext context = UcxContext.open(2);
      UcxProgressContext worker = new UcxProgressContext(context, group, 1, 1, arena);
      byte[] address = worker.address();
      byte[] offer =
          ByteBuffer.allocate(Long.BYTES + Integer.BYTES + address.length)
              .putLong(1)
              .putInt(address.length)
              .put(address)
              .array();
      CollectiveStep.exchange(group, "", offer, LIMIT);
      CollectiveStep.exchange(group, "", new byte[0], LIMIT);
      Thread.sleep(CONFIG.timeout().plusMillis(300));
      assertThatThrownBy(() -> CollectiveStep.exchange(group, "", new byte[0], LIMIT))
          .isInstanceOf(WireException.class)
          .hasMessageContaining(ERROR);
      worker.close();
      context.close();
    }
  }
}
