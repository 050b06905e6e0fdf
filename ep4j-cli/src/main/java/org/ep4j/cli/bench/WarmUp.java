package org.ep4j.cli.bench;

import org.jspecify.annotations.Nullable;

/**
 * What ran before the timed iterations; the same on every rank.
 *
 * @param iterations untimed iterations
 * @param steady whether the operation had stopped becoming faster; null with a number of iterations
 *     that the user chose
 */
record WarmUp(int iterations, @Nullable Boolean steady) {
  /** No warm-up of its own. */
  static final WarmUp NONE = new WarmUp(0, null);

  /** Whether the times are known to include warming up. */
  boolean isIncomplete() {
    return Boolean.FALSE.equals(steady);
  }
}
