package org.ep4j.bench;

/**
 * Releases all ranks of a host at the same moment, more precisely than messages can: the ranks
 * agree on a time, and each polls the clock. All processes of a Linux host share the clock of
 * {@link System#nanoTime}. Hosts do not: their ranks start within the time of an agreement.
 */
public final class StartSignal {
  /** Longer than the agreement on the time takes. */
  private static final long LEAD_NANOS = 500_000;

  private final CommandAgreement agreement;

  public StartSignal(CommandAgreement agreement) {
    this.agreement = agreement;
  }

  /** Returns on all ranks at once. */
  public void await() {
    long latest = agreement.max(System.nanoTime());
    long time = time(latest, System.nanoTime());
    while (System.nanoTime() < time) {
      Thread.onSpinWait();
    }
  }

  /**
   * When to start.
   *
   * @param latest time at which the last rank asked for the agreement, by the clock of a rank
   * @param now time of this rank after it, thus not before {@code latest} unless the clocks differ
   */
  static long time(long latest, long now) {
    return Math.min(latest, now) + LEAD_NANOS;
  }
}
