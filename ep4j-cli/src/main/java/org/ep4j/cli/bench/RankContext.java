package org.ep4j.cli.bench;

import java.io.PrintStream;
import java.util.List;
import org.ep4j.cli.launch.CommandAgreement;
import org.ep4j.cli.text.Progress;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Units;
import org.ep4j.group.Group;
import org.ep4j.verify.VerificationException;

/**
 * What the parts of a bench share on one rank.
 *
 * @param group who is there
 * @param agreement what they tell each other
 * @param settings what is done
 * @param progress what rank 0 is at
 */
record RankContext(
    Group group, CommandAgreement agreement, BenchSettings settings, Progress progress) {
  /** A check by the oracle. */
  @FunctionalInterface
  interface Check {
    /** Throws at the first difference. */
    void run();
  }

  boolean printing() {
    return group.rank() == 0;
  }

  /** Says on rank 0 what begins now. */
  void at(String text) {
    progress.at(text);
  }

  /** Prints on rank 0. */
  void print(String text) {
    if (printing()) {
      PrintStream out = System.out;
      progress.above(
          () -> {
            out.print(text);
            out.flush();
          });
    }
  }

  /**
   * Runs a check on every rank and lets all know.
   *
   * @throws VerificationFailure on every rank if it failed on any
   */
  void verify(Check check) {
    String mismatch = "";
    try {
      check.run();
    } catch (VerificationException e) {
      mismatch = String.valueOf(e.getMessage());
    }
    List<String> mismatches = agreement.texts(mismatch);
    if (!mismatches.isEmpty()) {
      throw new VerificationFailure(mismatches.getFirst());
    }
  }

  /** What a check that began at {@code start} has shown. */
  String verified(long start) {
    return "dispatch and combine equal the oracle's bits on all %d ranks (%s)"
        .formatted(group.size(), Units.micros((System.nanoTime() - start) / 1e3));
  }

  /** The same ranks with other settings. */
  RankContext with(BenchSettings others) {
    return new RankContext(group, agreement, others, progress);
  }

  /** Style of what is printed. */
  Style style() {
    return Style.detect();
  }
}
