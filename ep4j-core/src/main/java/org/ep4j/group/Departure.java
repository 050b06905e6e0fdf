package org.ep4j.group;

import java.time.Instant;
import java.time.temporal.ChronoUnit;

/**
 * How a rank ceased to be in the group.
 *
 * @param left whether it left in good order
 * @param report how and when that was noticed
 */
record Departure(boolean left, String report) {
  static Departure inGoodOrder() {
    return new Departure(true, "left the group in good order at " + now());
  }

  static Departure lost(String why) {
    return new Departure(false, why + ", noticed at " + now());
  }

  private static Instant now() {
    return Instant.now().truncatedTo(ChronoUnit.MILLIS);
  }
}
