package org.ep4j.observe;

import jdk.jfr.Label;

/** A collective that makes a buffer usable again: begun with it, ended by {@link #ended}. */
public abstract class RecoveryEvent extends RankEvent {
  /** Number of the last operation before the next one. */
  @Label("Number")
  public long number;

  /** Ranks that operations no longer count, separated by commas. */
  @Label("Excluded ranks")
  public String excluded = "";

  /** Why the call failed; empty if it succeeded. */
  @Label("Failure")
  public String failure = "";

  /** An event that has not begun. */
  protected RecoveryEvent() {}

  /**
   * Ends the event and commits it; no-op without a recording.
   *
   * @param gone ranks that operations no longer count
   * @param cause the error of the call; empty if it succeeded
   */
  public final void ended(int ofRank, long ofNumber, boolean[] gone, String cause) {
    end();
    if (shouldCommit()) {
      rank = ofRank;
      number = ofNumber;
      excluded = numbers(gone);
      failure = cause;
      commit();
    }
  }

  private static String numbers(boolean[] gone) {
    StringBuilder text = new StringBuilder();
    for (int r = 0; r < gone.length; r++) {
      if (gone[r]) {
        text.append(text.isEmpty() ? "" : ",").append(r);
      }
    }
    return text.toString();
  }
}
