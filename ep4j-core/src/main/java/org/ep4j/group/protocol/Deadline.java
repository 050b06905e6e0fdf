package org.ep4j.group.protocol;

import java.time.Duration;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/** A point in time, on the clock of {@link System#nanoTime()}. */
public record Deadline(long nanoTime, Duration span) {
  private static final Duration LONGEST = Duration.ofDays(365);

  public static Deadline after(Duration span) {
    if (span.isNegative()) {
      throw new InvalidArgumentException(
          ErrorCode.GROUP_TIMING,
          "timeout",
          span.toString(),
          "zero or positive",
          "pass the maximum wait");
    }
    // Clamped, so that very long spans do not overflow.
    Duration clamped = span.compareTo(LONGEST) < 0 ? span : LONGEST;
    return new Deadline(System.nanoTime() + clamped.toNanos(), clamped);
  }

  /** Nanoseconds left; zero or less once expired. */
  public long remainingNanos() {
    return nanoTime - System.nanoTime();
  }

  /** Milliseconds left, rounded up; at least 1, because zero means "no timeout" to socket calls. */
  public int remainingMillis() {
    return Math.clamp(remainingNanos() / 1_000_000 + 1, 1, Integer.MAX_VALUE);
  }

  public boolean expired() {
    return remainingNanos() <= 0;
  }

  /** The earlier of this deadline and {@code span} from now. */
  public Deadline orAfter(Duration span) {
    Deadline other = after(span);
    return other.nanoTime - nanoTime < 0 ? other : this;
  }

  /** The length of the wait for messages: {@code 250 ms}, {@code 2 s}. */
  public String text() {
    return text(span);
  }

  public static String text(Duration span) {
    long millis = span.toMillis();
    return millis < 1000 || millis % 1000 != 0 ? millis + " ms" : millis / 1000 + " s";
  }
}
