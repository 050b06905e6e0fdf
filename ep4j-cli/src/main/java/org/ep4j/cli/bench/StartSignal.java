package org.ep4j.cli.bench;

import org.ep4j.cli.launch.CommandAgreement;

/**
 * Lets all ranks of a host go on at the same moment, far closer together than messages would: they
 * agree on a time, and each watches the clock. The clock of {@link System#nanoTime} is one for all
 * processes of a Linux host.
 */
final class StartSignal {
  /** Longer than the last rank needs to hear of the time. */
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
