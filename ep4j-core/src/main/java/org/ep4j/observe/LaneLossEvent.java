package org.ep4j.observe;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;

/** The loss of a lane to a rank of another node: that rank is unreachable until a reset. */
@Name("org.ep4j.LaneLoss")
@Label("Loss of a lane")
@Description("A connection to a rank of another node has failed")
public final class LaneLossEvent extends RankEvent {
  /** An event that has not begun. */
  public LaneLossEvent() {}

  /** The rank at the other end. */
  @Label("Peer")
  public int peer;

  /** The kind of wire. */
  @Label("Wire")
  public String wire = "";

  /** Index of the lane. */
  @Label("Lane")
  public int lane;

  /** Kind and description of the failure. */
  @Label("Reason")
  public String reason = "";

  /** Records that {@code ofRank} has lost a lane; no-op without a recording. */
  public static void record(int ofRank, int ofPeer, String ofWire, int ofLane, String text) {
    LaneLossEvent event = new LaneLossEvent();
    if (event.shouldCommit()) {
      event.rank = ofRank;
      event.peer = ofPeer;
      event.wire = ofWire;
      event.lane = ofLane;
      event.reason = text;
      event.commit();
    }
  }
}
