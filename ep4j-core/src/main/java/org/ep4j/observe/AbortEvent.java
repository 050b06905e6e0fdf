package org.ep4j.observe;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;

/** The notice that a rank has aborted an operation: sent by it, or received by another rank. */
@Name("org.ep4j.Abort")
@Label("Abort notice")
@Description("A rank has aborted an operation and notifies the others")
public final class AbortEvent extends RankEvent {
  /** An event that has not begun. */
  public AbortEvent() {}

  /** Whether this rank has received the notice; else it has aborted. */
  @Label("Received")
  public boolean received;

  /** The rank that has aborted. */
  @Label("From rank")
  public int from;

  /** The rank where the failure began. */
  @Label("Failed rank")
  public int failedRank;

  /** Whether that rank is dead or unreachable. */
  @Label("Failed rank dead")
  public boolean failedRankDead;

  /** State of the failed rank. */
  @Label("State")
  public String state = "";

  /** Records that {@code ofRank} has aborted; no-op without a recording. */
  public static void sent(int ofRank, int failed, boolean dead, String text) {
    record(ofRank, false, ofRank, failed, dead, text);
  }

  /** Records that {@code ofRank} has read the notice of {@code sender}. */
  public static void received(int ofRank, int sender, int failed, boolean dead, String text) {
    record(ofRank, true, sender, failed, dead, text);
  }

  private static void record(
      int ofRank, boolean read, int sender, int failed, boolean dead, String text) {
    AbortEvent event = new AbortEvent();
    if (event.shouldCommit()) {
      event.rank = ofRank;
      event.received = read;
      event.from = sender;
      event.failedRank = failed;
      event.failedRankDead = dead;
      event.state = text;
      event.commit();
    }
  }
}
