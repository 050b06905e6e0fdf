package org.ep4j.bench;

/**
 * Releases all ranks of a host at the same moment, more precisely than messages can: the ranks
 * agree on a time, and each polls the clock. All processes of a Linux host share the clock of
 * {@link System#nanoTime}.
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
    long time = agreement.max(System.nanoTime()) + LEAD_NANOS;
    while (System.nanoTime() < time) {
      Thread.onSpinWait();
    }
  }
}
