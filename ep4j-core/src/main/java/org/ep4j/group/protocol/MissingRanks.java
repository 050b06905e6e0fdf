package org.ep4j.group.protocol;

import java.util.Arrays;
import java.util.stream.Collectors;

/** Text for missing ranks. */
public final class MissingRanks {
  private static final int MAX_NAMED = 32;

  private MissingRanks() {}

  /** {@code rank 3 is missing}, {@code ranks 1, 2 are missing}; names at most 32. */
  public static String text(int[] ranks) {
    return switch (ranks.length) {
      case 0 -> "no rank is missing";
      case 1 -> "rank " + ranks[0] + " is missing";
      default -> "ranks " + list(ranks) + " are missing";
    };
  }

  private static String list(int[] ranks) {
    String some =
        Arrays.stream(ranks)
            .limit(MAX_NAMED)
            .mapToObj(Integer::toString)
            .collect(Collectors.joining(", "));
    return ranks.length <= MAX_NAMED ? some : some + " and " + (ranks.length - MAX_NAMED) + " more";
  }
}
