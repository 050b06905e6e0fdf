package org.ep4j.observe;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;

/**
 * The loss of one of several paths of a wire to a peer: its lanes continue over another path. Ranks
 * have their numbers in the wire here: after a reset without a lost rank, a wire numbers the live
 * ranks only.
 */
@Name("org.ep4j.PathLoss")
@Label("Loss of a path")
@Description("A port or queue pair to a rank of another node has failed, and another continues")
public final class PathLossEvent extends RankEvent {
  /** An event that has not begun. */
  public PathLossEvent() {}

  /** The rank at the other end. */
  @Label("Peer")
  public int peer;

  /** The lost port. */
  @Label("Port")
  public String port = "";

  /** The ports over which the lanes continue. */
  @Label("Continues over")
  public String continuesOver = "";

  /** Lanes that have moved there. */
  @Label("Lanes")
  public int lanes;

  /** Why the path was lost. */
  @Label("Reason")
  public String reason = "";

  /** Records that {@code ofRank} has lost a path; no-op without a recording. */
  public static void record(
      int ofRank, int ofPeer, String lost, String other, int moved, String text) {
    PathLossEvent event = new PathLossEvent();
    if (event.shouldCommit()) {
      event.rank = ofRank;
      event.peer = ofPeer;
      event.port = lost;
      event.continuesOver = other;
      event.lanes = moved;
      event.reason = text;
      event.commit();
    }
  }
}
