package org.ep4j.conformance.sizes;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.time.Duration;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.group.rendezvous.Rendezvous;
import org.junit.jupiter.api.Test;

/** More ranks than any machine has cores, with a socket each, at one rendezvous. */
class RendezvousOfManyRanksTest {
  private static final Duration LIMIT = Duration.ofSeconds(60);

  /** A machine with two cores serves a thousand ranks in this time, beside other tests. */
  private static final Duration LIVENESS = Duration.ofSeconds(20);

  @Test
  void allRanksJoinAndExchange() {
    int ranks = TestScale.of(128, 1024);
    GroupConfig config =
        GroupConfig.builder()
            .size(ranks)
            .rendezvous("127.0.0.1", 0)
            .secret("a rendezvous of many ranks")
            .joinTimeout(LIMIT)
            .livenessTimeout(LIVENESS)
            .build();
    try (Rendezvous rendezvous = Rendezvous.open(config)) {
      ThreadRanks.run(
          ranks,
          LIMIT.multipliedBy(4),
          me -> {
            try (Group group = Group.join(rendezvous.configOf(me.rank()))) {
              exchange(group);
            }
          });
    }
  }

  private static void exchange(Group group) {
    group.barrier(LIMIT);
    byte[] mine = ByteBuffer.allocate(Long.BYTES).putLong(~group.rank()).array();
    byte[][] all = group.allGather(mine, LIMIT);
    assertThat(all).hasNumberOfRows(group.size());
    for (int rank = 0; rank < all.length; rank++) {
      assertThat(ByteBuffer.wrap(all[rank]).getLong()).isEqualTo(~rank);
    }
    group.barrier(LIMIT);
  }
}
