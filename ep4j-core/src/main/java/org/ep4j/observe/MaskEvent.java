package org.ep4j.observe;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;

/** A rank masks another, or counts it again. */
@Name("org.ep4j.Mask")
@Label("Mask of a rank")
@Description("Low-latency operations skip a rank from now on, or count it again")
public final class MaskEvent extends RankEvent {
  /** An event that has not begun. */
  public MaskEvent() {}

  /** The rank that is skipped or counted. */
  @Label("Peer")
  public int peer;

  /** Whether it is skipped from now on. */
  @Label("Masked")
  public boolean masked;

  /** Why. */
  @Label("Reason")
  public String reason = "";

  /** Records a mask of {@code ofRank}; no-op without a recording. */
  public static void record(int ofRank, int ofPeer, boolean skipped, String text) {
    MaskEvent event = new MaskEvent();
    if (event.shouldCommit()) {
      event.rank = ofRank;
      event.peer = ofPeer;
      event.masked = skipped;
      event.reason = text;
      event.commit();
    }
  }
}
