package org.ep4j.observe;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Timespan;

/**
 * The time that one rank has waited for another in a window of operations. Recorded with its {@link
 * WindowEvent}, for each rank that the window waited for.
 */
@Name("org.ep4j.WindowWait")
@Label("Wait for a rank in a window of operations")
@Description("Time that the operations of a window have waited for one other rank")
public final class WindowWaitEvent extends RankEvent {
  /** An event that has not begun. */
  public WindowWaitEvent() {}

  /** Number of the window since the buffer was opened or reset, from 0. */
  @Label("Number")
  public long number;

  /** The rank that was late. */
  @Label("Peer")
  public int peer;

  /** Time waited for it, in all operations of the window. */
  @Label("Waited")
  @Timespan
  public long waited;

  /** Records the waits of a window of {@code ofRank}; no-op without a recording. */
  static void record(int ofRank, RankObservation.Window window) {
    long[] waits = window.waited();
    for (int r = 0; r < waits.length; r++) {
      WindowWaitEvent event = new WindowWaitEvent();
      if (waits[r] > 0 && event.shouldCommit()) {
        event.rank = ofRank;
        event.number = window.number();
        event.peer = r;
        event.waited = waits[r];
        event.commit();
      }
    }
  }
}
