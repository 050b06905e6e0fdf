package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.group.TcpWorld.LONG;

import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;

/** Notices between threads of one JVM, and over the rendezvous. */
class GroupNoticesTest {
  private static final long TOPIC = 7;

  private record Notice(int from, int first) {}

  @Test
  void aNoticeReachesTheRankThatItNamesIfThatRankListensToItsTopic() throws Exception {
    arrivesAtItsRankOnly(Group.inProcess(3));
    try (TcpWorld world = new TcpWorld(3)) {
      arrivesAtItsRankOnly(world.joinAll());
    }
  }

  /** Notices between the same two ranks arrive in order, so the last one shows what came before. */
  private static void arrivesAtItsRankOnly(List<Group> groups) throws Exception {
    BlockingQueue<Notice> atRankOne = new LinkedBlockingQueue<>();
    BlockingQueue<Notice> atRankTwo = new LinkedBlockingQueue<>();
    groups.get(1).listen(TOPIC, (from, bytes) -> atRankOne.add(new Notice(from, bytes[0])));
    groups.get(2).listen(TOPIC, (from, bytes) -> atRankTwo.add(new Notice(from, bytes[0])));
    groups.get(0).notice(1, TOPIC + 1, new byte[] {1});
    groups.get(0).notice(1, TOPIC, new byte[] {2});
    assertThat(atRankOne.poll(LONG.toSeconds(), TimeUnit.SECONDS)).isEqualTo(new Notice(0, 2));
    groups.get(1).listen(TOPIC, null);
    groups.get(1).listen(TOPIC + 2, (from, bytes) -> atRankOne.add(new Notice(from, bytes[0])));
    groups.get(0).notice(1, TOPIC, new byte[] {3});
    groups.get(0).notice(1, TOPIC + 2, new byte[Group.MAX_NOTICE]);
    assertThat(atRankOne.poll(LONG.toSeconds(), TimeUnit.SECONDS)).isEqualTo(new Notice(0, 0));
    groups.get(0).notice(2, TOPIC, new byte[] {4});
    assertThat(atRankTwo.poll(LONG.toSeconds(), TimeUnit.SECONDS)).isEqualTo(new Notice(0, 4));
    assertThat(atRankOne).isEmpty();
    assertThat(atRankTwo).isEmpty();
  }

  @Test
  void aNoticeToADepartedRankDoesNotArriveAndIsNoFailure() throws Exception {
    passesADepartedRank(Group.inProcess(3));
    try (TcpWorld world = new TcpWorld(3)) {
      passesADepartedRank(world.joinAll());
    }
  }

  private static void passesADepartedRank(List<Group> groups) throws Exception {
    BlockingQueue<Notice> notices = new LinkedBlockingQueue<>();
    for (int rank = 1; rank < 3; rank++) {
      groups.get(rank).listen(TOPIC, (from, bytes) -> notices.add(new Notice(from, bytes[0])));
    }
    groups.get(1).close();
    groups.get(0).notice(1, TOPIC, new byte[] {1});
    groups.get(0).notice(2, TOPIC, new byte[] {2});
    assertThat(notices.poll(LONG.toSeconds(), TimeUnit.SECONDS)).isEqualTo(new Notice(0, 2));
    assertThat(notices).isEmpty();
    assertThat(groups.get(2).isAlive(0)).isTrue();
  }

  @Test
  void aNoticeThatIsTooLongIsRefused() {
    List<Group> groups = Group.inProcess(2);
    assertThatThrownBy(() -> groups.get(0).notice(1, TOPIC, new byte[Group.MAX_NOTICE + 1]))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.CONTRIBUTION_SIZE.id())
        .hasMessageContaining("1025 bytes");
  }
}
