package org.ep4j.engine;

import java.util.Arrays;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * The ranks of a buffer as the processes it knows. A rank whose place has been taken by a restarted
 * process is gone for the buffer until it is {@link #take taken in} here too: its memory is another
 * one. Changed between operations only; asked by any thread, in spin loops too.
 */
public final class Members {
  private final Group group;
  private final int[] incarnations;

  /** The ranks as they are now. */
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

  /** Whether the process that the buffer knows as this rank lives. */
  public boolean isAlive(int rank) {
    // In this order: who sees a new process alive, sees its incarnation.
    return group.isAlive(rank) && group.incarnation(rank) == incarnations[rank];
  }

  /** How its death was noticed; null while it is alive. */
  public @Nullable String deathReport(int rank) {
    if (isReplaced(rank)) {
      return "a restarted process has taken its place; readmit() takes it in";
    }
    return group.deathReport(rank);
  }

  /**
   * What to say of a rank that lives and was waited for in vain. A rank that was itself stopped
   * blames nobody: the others may only be waiting for it, or go on without it.
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
        : "does not wait for this one, " + own + ", which is out of the group (" + out + "),";
  }

  /** The same of a rank that has begun anew while this one was away. */
  public String goneOnWithoutThis() {
    return "has gone on without this one, "
        + group.rank()
        + ", which was stopped or is out of the group,";
  }

  /**
   * Whether another process has taken the place of the one that the buffer knows: the same on all
   * ranks that have called the same {@link Group#readmit}s, even if it is gone again.
   */
  public boolean isReplaced(int rank) {
    return group.incarnation(rank) != incarnations[rank];
  }

  /** Whether any has been {@link #isReplaced replaced}. */
  public boolean anyIsReplaced() {
    for (int r = 0; r < incarnations.length; r++) {
      if (isReplaced(r)) {
        return true;
      }
    }
    return false;
  }

  /** Whether any has been replaced by a process that lives. */
  public boolean anyIsBack() {
    for (int r = 0; r < incarnations.length; r++) {
      if (isReplaced(r) && group.isAlive(r)) {
        return true;
      }
    }
    return false;
  }

  /** From now on the process in the place of this rank counts. */
  public void take(int rank) {
    incarnations[rank] = group.incarnation(rank);
  }
}
