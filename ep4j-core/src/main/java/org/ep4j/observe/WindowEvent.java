package org.ep4j.observe;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Period;
import jdk.jfr.Timespan;

/**
 * A window of {@link ObservationLog#WINDOW} consecutive operations of a buffer on one rank, of both
 * engines. Recorded periodically: each time those of the last {@link ObservationLog#KEPT} windows
 * that have ended since the time before.
 */
@Name("org.ep4j.Window")
@Label("Window of operations")
@Description("Consecutive operations of a buffer, and for how long they waited for other ranks")
@Period("1 s")
public final class WindowEvent extends RankEvent {
  /** An event that has not begun. */
  public WindowEvent() {}

  /** Number of the window since the buffer was opened or reset, from 0. */
  @Label("Number")
  public long number;

  /** Operations of the window. */
  @Label("Operations")
  public int operations;

  /** From the end of the window before to the end of this one. */
  @Label("Elapsed")
  @Timespan
  public long elapsed;

  /** Rows that its dispatches brought to this rank. */
  @Label("Received rows")
  public long rows;

  /** Time waited for other ranks. */
  @Label("Waited")
  @Timespan
  public long waited;

  /** The rank with the longest wait; -1 if there was none. */
  @Label("Longest wait for rank")
  public int longestWaitFor;

  /** That wait. */
  @Label("Longest wait")
  @Timespan
  public long longestWait;

  /** Records a window of {@code ofRank}; no-op without a recording. */
  static void record(int ofRank, RankObservation.Window window) {
    WindowEvent event = new WindowEvent();
    if (!event.shouldCommit()) {
      return;
    }
    event.rank = ofRank;
    event.number = window.number();
    event.operations = ObservationLog.WINDOW;
    event.elapsed = window.nanos();
    event.rows = window.rows();
    event.longestWaitFor = -1;
    long[] waits = window.waited();
    for (int peer = 0; peer < waits.length; peer++) {
      event.waited += waits[peer];
      if (waits[peer] > event.longestWait) {
        event.longestWait = waits[peer];
        event.longestWaitFor = peer;
      }
    }
    event.commit();
  }
}
