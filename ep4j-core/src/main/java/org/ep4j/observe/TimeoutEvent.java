package org.ep4j.observe;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Timespan;
import org.ep4j.error.PeerTimeoutException;

/** An operation that has ended in {@link PeerTimeoutException}. */
@Name("org.ep4j.Timeout")
@Label("Timeout of a rank")
@Description("An operation ended because another rank did not do its part")
public final class TimeoutEvent extends RankEvent {
  /** An event that has not begun. */
  public TimeoutEvent() {}

  /** What the rank called. */
  @Label("Operation")
  public String operation = "";

  /** The phase that waited. */
  @Label("Phase")
  public String phase = "";

  /** Number of the operation in the buffer. */
  @Label("Number")
  public long number;

  /** The rank where the failure began. */
  @Label("Peer")
  public int peer;

  /** Its state. */
  @Label("State of the peer")
  public String peerState = "";

  /** Whether it is dead or unreachable. */
  @Label("Peer dead")
  public boolean peerDead;

  /** Length of the wait. */
  @Label("Waited")
  @Timespan(Timespan.MILLISECONDS)
  public long waited;

  /** Records the end of an operation of {@code ofRank}; no-op without a recording. */
  public static void record(int ofRank, PeerTimeoutException cause) {
    TimeoutEvent event = new TimeoutEvent();
    if (event.shouldCommit()) {
      event.rank = ofRank;
      event.operation = cause.operation();
      event.phase = cause.phase();
      event.number = cause.epoch();
      event.peer = cause.peer();
      event.peerState = cause.peerState();
      event.peerDead = cause.peerDead();
      event.waited = cause.waitedMillis();
      event.commit();
    }
  }
}
