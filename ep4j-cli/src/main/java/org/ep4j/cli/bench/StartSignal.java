package org.ep4j.cli.bench;

import org.ep4j.cli.launch.CommandAgreement;

/**
 * Releases all ranks of a host at the same moment, more precisely than messages can: the ranks
 * agree on a time, and each polls the clock. All processes of a Linux host share the clock of
 * {@link System#nanoTime}.
 */
final class StartSignal {
  /** Longer than the agreement on the time takes. */
  private static final long LEAD_NANOS = 500_000;

  private final CommandAgreement agreement;

  StartSignal(CommandAgreement agreement) {
    this.agreement = agreement;
  }

  /** Returns on all ranks at once. */
  void await() {
    long time = agreement.max(System.nanoTime()) + LEAD_NANOS;
    while (System.nanoTime() < time) {
      Thread.onSpinWait();
    }
  }
}
