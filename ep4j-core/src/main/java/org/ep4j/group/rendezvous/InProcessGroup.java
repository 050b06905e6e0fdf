package org.ep4j.group.rendezvous;

import java.net.InetAddress;
import java.util.List;
import java.util.stream.IntStream;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;
import org.ep4j.group.JobKey;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Departure;
import org.ep4j.group.protocol.GroupState;
import org.jspecify.annotations.Nullable;

/** A rank that is a thread of this JVM, like all other ranks. */
public final class InProcessGroup extends MemberGroup {
  private final InProcessWorld world;

  private InProcessGroup(InProcessWorld world, int rank) {
    super(rank, world.size(), world.jobId(), world.state());
    this.world = world;
  }

  /** All ranks of a new world. */
  public static List<Group> world(int size) {
    return ranks(new InProcessWorld(size, JobIds.random()));
  }

  static List<Group> ranks(InProcessWorld world) {
    return IntStream.range(0, world.size())
        .<Group>mapToObj(rank -> new InProcessGroup(world, rank))
        .toList();
  }

  @Override
  public boolean inProcess() {
    return true;
  }

  @Override
  public JobKey key() {
    return world.key();
  }

  @Override
  public InetAddress address(int rank) {
    return InetAddress.getLoopbackAddress();
  }

  @Override
  void contribute(long number, GroupState.Kind kind, byte[] part) {
    world.rejoin(rank());
    world.state().contribute(rank(), number, kind, part);
  }

  @Override
  void send(int to, long topic, byte[] notice) {
    world.state().noticed(rank(), to, topic, notice);
  }

  @Override
  Group formSurvivors(Deadline deadline) {
    world.rejoin(rank());
    return world.survivors(rank(), deadline);
  }

  @Override
  int[] takeInRestarted(Deadline deadline) {
    throw new GroupException(
        ErrorCode.READMIT_UNSUPPORTED,
        "readmit: the ranks are threads of one process, and ended threads are not restarted: use"
            + " survivors(), or run ranks as processes");
  }

  @Override
  void depart(Departure departure) {
    world.state().depart(rank(), departure);
  }

  @Override
  public boolean isAlive(int rank) {
    return world.isAlive(rank);
  }

  @Override
  public @Nullable String deathReport(int rank) {
    world.isAlive(rank);
    return super.deathReport(rank);
  }
}
