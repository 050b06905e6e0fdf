package org.ep4j.group.protocol;

import java.time.Instant;
import java.time.temporal.ChronoUnit;

/**
 * How a rank left the group.
 *
 * @param left whether the rank closed its group in good order
 * @param report how and when the departure was noticed
 */
public record Departure(boolean left, String report) {
  public static Departure inGoodOrder() {
    return new Departure(true, "left the group in good order at " + now());
  }

  public static Departure lost(String why) {
    return new Departure(false, why + ", noticed at " + now());
  }

  private static Instant now() {
    return Instant.now().truncatedTo(ChronoUnit.MILLIS);
  }
}
