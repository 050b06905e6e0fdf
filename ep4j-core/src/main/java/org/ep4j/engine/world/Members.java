package org.ep4j.engine.world;

import java.util.Arrays;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * The ranks of a buffer as the processes that the buffer knows. A rank that a restarted process has
 * replaced is dead for the buffer until {@link #take}, because the process has other memory. The
 * owner changes members between operations only; any thread may read them, also in spin loops.
 */
public final class Members {
  private final Group group;
  private final int[] incarnations;

  /** The current processes of the ranks. */
  public Members(Group group) {
    this.group = group;
    incarnations = new int[group.size()];
    Arrays.setAll(incarnations, group::incarnation);
  }

  /** This rank. */
  public int rank() {
    return group.rank();
  }

  /** Number of ranks. */
  public int size() {
    return incarnations.length;
  }

  /** Whether the process that the buffer knows as this rank is alive. */
  public boolean isAlive(int rank) {
    // In this order: a reader that sees a new process alive also sees its incarnation.
    return group.isAlive(rank) && group.incarnation(rank) == incarnations[rank];
  }

  /** How the death was detected; null while the rank is alive. */
  public @Nullable String deathReport(int rank) {
    if (isReplaced(rank)) {
      return "a restarted process has replaced it: call readmit()";
    }
    return group.deathReport(rank);
  }

  /** Whether the process that the buffer knows as this rank has left the group in good order. */
  public boolean hasLeft(int rank) {
    return !isReplaced(rank) && group.hasLeft(rank);
  }

  /** The state to report for a rank that has departed. */
  public String departureOf(int rank) {
    String report = deathReport(rank);
    if (hasLeft(rank)) {
      return "has " + report;
    }
    return "is dead (" + (report == null ? "no longer a member" : report) + ")";
  }

  /**
   * The state to report for a live rank after a timeout. If this rank itself was stopped, the
   * report does not accuse the peer: the peers may be waiting for this rank, or have continued
   * without it.
   */
  public String silenceOf(int rank) {
    int own = group.rank();
    String out = group.deathReport(own);
    if (out == null) {
      return rank == own
          ? "is this rank itself: its process was stopped, or has had no core to run on,"
          : "is silent";
    }
    return rank == own
        ? "is this rank itself, which is out of the group (" + out + "),"
        : "does not wait for this rank (" + own + "), which is out of the group (" + out + "),";
  }

  /** The same for a rank that has reset without this rank. */
  public String goneOnWithoutThis() {
    return "has continued without this rank ("
        + group.rank()
        + "), which was stopped or is out of the group,";
  }

  /**
   * Whether another process has replaced the known process of a rank: the same on all ranks that
   * have called the same {@link Group#readmit}s, even if the new process is dead again.
   */
  public boolean isReplaced(int rank) {
    return group.incarnation(rank) != incarnations[rank];
  }

  /** Whether any rank has been {@link #isReplaced replaced}. */
  public boolean anyIsReplaced() {
    for (int r = 0; r < incarnations.length; r++) {
      if (isReplaced(r)) {
        return true;
      }
    }
    return false;
  }

  /** Whether a live process has replaced any rank. */
  public boolean anyIsBack() {
    for (int r = 0; r < incarnations.length; r++) {
      if (isReplaced(r) && group.isAlive(r)) {
        return true;
      }
    }
    return false;
  }

  /** Makes the current process of this rank a member. */
  public void take(int rank) {
    incarnations[rank] = group.incarnation(rank);
  }
}
