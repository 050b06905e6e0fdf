package org.ep4j.observe;

import java.util.Locale;

/**
 * What makes the ranks of a job wait, from {@link WorldObservation#verdict()}.
 *
 * @param cause what it is
 * @param rank the slow or overloaded rank; for a slow link its receiver; -1 if there is none
 * @param sender for a slow link its sender; otherwise -1
 * @param waitedNanos by which an operation would be shorter without it: until the ranks wait for
 *     the next one
 * @param share of the time of an operation, from 0 to 1
 * @param agreement windows in which the same rank is the latest, among all, from 0 to 1
 */
public record Verdict(
    Cause cause, int rank, int sender, double waitedNanos, double share, double agreement) {
  /** Causes of waits. */
  public enum Cause {
    /** Fewer than {@link WorldObservation#MIN_WINDOWS} windows have been recorded. */
    TOO_EARLY,
    /** No rank and no link stands out. */
    NONE,
    /** A rank comes late to operations, and its rows are no more than those of others. */
    SLOW_RANK,
    /** One rank waits for another one for which the others do not wait. */
    SLOW_LINK,
    /** A rank comes late that receives far more rows than the others. */
    SKEW
  }

  /** One sentence for people. */
  @Override
  public String toString() {
    String cost =
        String.format(
            Locale.ROOT,
            "without it an operation would take %.0f us less, %.0f %%",
            waitedNanos / 1e3,
            100 * share);
    return switch (cause) {
      case TOO_EARLY ->
          "too early: fewer than "
              + WorldObservation.MIN_WINDOWS * ObservationLog.WINDOW
              + " operations since the buffer was opened or reset";
      case NONE -> "no rank and no link stands out";
      case SLOW_RANK -> "rank " + rank + " is slow: " + cost;
      case SLOW_LINK ->
          "the link from rank "
              + sender
              + " to rank "
              + rank
              + " is slow: rank "
              + rank
              + " alone waits for it; "
              + cost;
      case SKEW ->
          "rank " + rank + " receives far more rows than the others: balance the experts; " + cost;
    };
  }
}
