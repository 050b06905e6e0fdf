package org.ep4j.observe;

import java.util.function.LongSupplier;
import java.util.function.Supplier;
import jdk.jfr.Label;

/** A collective that makes a buffer usable again. */
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
   * Makes the call and records how it has ended; without a recording it only makes the call.
   *
   * @param ofRank the rank that calls
   * @param ofNumber number of the last operation before the next one, asked for after the call
   * @param gone ranks that operations no longer count, asked for after the call
   */
  public final <T> T record(
      int ofRank, LongSupplier ofNumber, Supplier<boolean[]> gone, Supplier<T> call) {
    begin();
    failure = "it did not end";
    try {
      T result = call.get();
      failure = "";
      return result;
    } catch (RuntimeException e) {
      failure = e.toString();
      throw e;
    } finally {
      end();
      if (shouldCommit()) {
        rank = ofRank;
        number = ofNumber.getAsLong();
        excluded = numbers(gone.get());
        commit();
      }
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
