package org.ep4j.cli.bench;

import java.io.PrintStream;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.bench.NodeChoice;
import org.ep4j.bench.VerificationFailure;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Progress;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Units;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.verify.VerificationException;

/**
 * Context of the parts of a bench on one rank.
 *
 * @param group the group
 * @param agreement exchange of numbers and texts with the other ranks
 * @param settings settings of the bench
 * @param progress progress line of rank 0
 * @param out stream of the tables
 * @param trace records timed iterations
 */
record RankContext(
    Group group,
    CommandAgreement agreement,
    BenchSettings settings,
    Progress progress,
    PrintStream out,
    TraceRecorder trace) {
  /** A check by the oracle. */
  @FunctionalInterface
  interface Check {
    /** Throws on the first difference. */
    void run();
  }

  /** The same with the nodes that an open buffer has found: hosts, and those that NVLink joins. */
  RankContext across(ExpertBuffer buffer) {
    int found = buffer.config().ranksPerNode(); // 0: nodes of different sizes
    return with(settings.across(new NodeChoice(found, settings.nodes().wire())));
  }

  /** The same for the oracle of high throughput, which needs nodes of one size; else closes it. */
  RankContext acrossEqualNodes(ExpertBuffer buffer) {
    if (buffer.config().ranksPerNode() == 0) {
      buffer.close();
      throw new CommandFailure(
          ErrorCode.BAD_OPTION_VALUE,
          ExitCodes.USAGE,
          "--ranks-per-node is left out, and the nodes have different numbers of ranks; the oracle"
              + " needs equal ones: pass --ranks-per-node, or start as many ranks on each host");
    }
    return across(buffer);
  }

  /** Whether the ranks belong to several nodes, as far as known. */
  boolean severalNodes() {
    return settings.nodes().several(group.size());
  }

  boolean printing() {
    return group.rank() == 0;
  }

  /** Reports on rank 0 the step that begins. */
  void at(String text) {
    progress.at(text);
  }

  /** Prints on rank 0. */
  void print(String text) {
    if (printing()) {
      progress.above(
          () -> {
            out.print(text);
            out.flush();
          });
    }
  }

  /**
   * Runs a check on every rank and shares the result.
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

  /** Report of a check that began at {@code start}. */
  String verified(long start) {
    return "dispatch and combine equal the oracle bit for bit on all %d ranks (%s)"
        .formatted(group.size(), Units.micros((System.nanoTime() - start) / 1e3));
  }

  /** This context with other settings. */
  RankContext with(BenchSettings others) {
    return new RankContext(group, agreement, others, progress, out, trace);
  }

  /** Style of the output. */
  Style style() {
    return Style.detect();
  }
}
