package org.ep4j.group.rendezvous;

import static org.assertj.core.api.Assertions.assertThat;
import static org.ep4j.group.TcpWorld.LONG;

import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.ep4j.group.Group;
import org.ep4j.group.JobKey;
import org.ep4j.group.TcpWorld;
import org.ep4j.group.protocol.BlockingFrameChannel;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Frames;
import org.ep4j.group.protocol.Frames.Frame;
import org.ep4j.group.protocol.Frames.Question;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Answers of a rank at its peer port, depending on the incarnation that it knows of the asking
 * rank.
 */
@Timeout(60)
class PeerPortTest {
  private static Frame ask(Group of, int asker, int incarnation, Question question)
      throws Exception {
    TcpGroup group = (TcpGroup) of;
    try (BlockingFrameChannel channel =
        BlockingFrameChannel.open(
            group.peer(group.rank()),
            JobKey.of(TcpWorld.SECRET),
            Frames.Purpose.PEER,
            Deadline.after(LONG))) {
      channel.send(Frames.ask(asker, incarnation, question, group.jobId()));
      return channel.receive(Frames.MAX_BEFORE_PROOF, Deadline.after(LONG));
    }
  }

  @Test
  void aNewcomerThatIsNotAnnouncedYetIsNotADeadRank() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      List<Group> groups = world.joinAll();
      Group zero = groups.get(0);
      assertThat(ask(zero, 1, 0, Question.PROBE).type()).isEqualTo(Frames.PING);
      groups.get(1).fail("over");
      while (zero.isAlive(1)) {
        Thread.sleep(1);
      }
      Frame verdict = ask(zero, 1, 0, Question.PROBE);
      assertThat(verdict.type()).isEqualTo(Frames.VERDICT);
      assertThat(Frames.text(verdict.body())).isEqualTo(zero.deathReport(1)).contains("over");
      // The rendezvous notifies the newcomer and the other ranks in any order.
      assertThat(ask(zero, 1, 1, Question.PROBE).type()).isEqualTo(Frames.PING);
      assertThat(ask(zero, 1, 1, Question.SURVIVORS).type()).isEqualTo(Frames.PING);
    }
  }

  @Test
  void theOldProcessIsNotifiedOfItsReplacement() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      List<Group> groups = world.joinAll();
      Group zero = groups.get(0);
      groups.get(1).fail("over");
      FutureTask<Group> again =
          new FutureTask<>(() -> world.keep(Group.rejoin(world.rank(1).build())));
      Thread.ofVirtual().start(again);
      assertThat(zero.readmit(LONG)).containsExactly(1);
      assertThat(again.get(LONG.toMillis(), TimeUnit.MILLISECONDS).incarnation(1)).isEqualTo(1);
      Frame verdict = ask(zero, 1, 0, Question.SURVIVORS);
      assertThat(verdict.type()).isEqualTo(Frames.VERDICT);
      assertThat(Frames.text(verdict.body())).isEqualTo("a restarted process has replaced rank 1");
      assertThat(ask(zero, 1, 1, Question.SURVIVORS).type()).isEqualTo(Frames.PING);
    }
  }
}
