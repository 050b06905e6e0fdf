package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.group.TcpWorld.LONG;

import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.rendezvous.TcpGroup;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A rank that cannot change its rendezvous. */
@Timeout(60)
class MoveToTest {
  /**
   * The reactor thread has ended between the join and the move, as when another thread closes it.
   */
  @Test
  void aGroupThatIsClosedMeanwhileLeavesTheNewRendezvousAgain() {
    GroupConfig alone =
        TcpWorld.config(1).toBuilder().livenessTimeout(LONG.multipliedBy(2)).build();
    try (TcpWorld before = new TcpWorld(alone);
        TcpWorld after = new TcpWorld(alone)) {
      TcpGroup group = (TcpGroup) before.join(before.rank(0).build());
      group.close();
      GroupConfig there = after.rank(0).build();
      assertThatThrownBy(() -> group.moveTo(there, null, Deadline.after(LONG)))
          .isInstanceOf(GroupException.class)
          .hasMessageContaining("does not answer");
      assertThat(after.rendezvous.awaitEnd(LONG)).as("the connection is closed").isTrue();
    }
  }
}
