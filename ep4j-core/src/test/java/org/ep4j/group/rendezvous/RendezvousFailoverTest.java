package org.ep4j.group.rendezvous;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.group.TcpWorld.LONG;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.PeerLostException;
import org.ep4j.group.TcpWorld;
import org.ep4j.group.protocol.Departure;
import org.ep4j.group.protocol.GroupState;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Ranks that disagree which ranks are alive when the rendezvous is lost. */
@Execution(ExecutionMode.CONCURRENT)
@Timeout(60)
class RendezvousFailoverTest {
  private static final String REPORT = "its connection broke";

  private static GroupState state(Group group) {
    return ((TcpGroup) group).state();
  }

  /**
   * Ranks of a lost rendezvous. The others know a departure of rank 0, and rank 0 would host the
   * new rendezvous.
   */
  private static List<Group> ranksThatCountRankZeroAsLost(TcpWorld world) {
    List<Group> groups = world.joinAll();
    for (Group other : groups.subList(1, groups.size())) {
      state(other).depart(0, new Departure(false, REPORT));
    }
    world.rendezvous.close();
    return groups;
  }

  private static void assertOut(String call, ThrowingCallable code) {
    assertThatThrownBy(code)
        .isInstanceOf(PeerLostException.class)
        .hasMessage(
            ErrorCode.RANK_LOST.message(call + ": this rank (0) is out of the group: " + REPORT));
  }

  @Test
  void aRankThatTheOthersCountAsLostFormsNoGroupOfItsOwn() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      List<Group> groups = ranksThatCountRankZeroAsLost(world);
      assertOut("survivors", () -> groups.get(0).survivors(LONG));
      assertThat(groups.get(0).isAlive(1) && groups.get(0).isAlive(2)).isTrue();
      TcpWorld.inEach(
          groups.subList(1, 3),
          group -> {
            try (Group next = group.survivors(LONG)) {
              assertThat(next.size()).isEqualTo(2);
              next.barrier(LONG);
            }
          });
    }
  }

  @Test
  void aRankThatTheOthersCountAsLostAdmitsNoRank() {
    try (TcpWorld world = new TcpWorld(3)) {
      List<Group> groups = ranksThatCountRankZeroAsLost(world);
      assertOut("readmit", () -> groups.get(0).readmit(LONG));
      assertThat(groups.get(0).isAlive(1) && groups.get(0).isAlive(2)).isTrue();
    }
  }

  /** The verdict arrives after the call has looked for one, and before it asks the rendezvous. */
  @Test
  void aRankThatIsOutDoesNotWaitForTheRendezvous() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      TcpGroup group = (TcpGroup) world.joinAll().getFirst();
      state(group).depart(0, new Departure(false, REPORT));
      state(group).down(0, REPORT);
      assertThat(group.admit().get(LONG.toMillis(), TimeUnit.MILLISECONDS))
          .isEqualTo(Readmission.Answer.LOST);
    }
  }
}
