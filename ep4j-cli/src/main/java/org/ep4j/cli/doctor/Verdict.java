package org.ep4j.cli.doctor;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.config.EngineName;

/** What all findings together mean: whether ep4j runs here, on what, and what needs attention. */
final class Verdict {
  private static final String TOPIC = "Verdict";
  private static final String ENGINES = "Engines";
  private static final String MEMORY = "Memory";

  private Verdict() {}

  static List<Finding> of(List<Finding> findings) {
    List<Finding> verdict = new ArrayList<>();
    verdict.add(engine(findings));
    List<String> attention =
        findings.stream()
            .filter(Verdict::needsAttention)
            .map(finding -> finding.topic() + ": " + finding.name())
            .distinct()
            .toList();
    verdict.add(
        attention.isEmpty()
            ? Finding.found(TOPIC, "warnings", "none", "")
            : Finding.warning(
                TOPIC,
                "warnings",
                String.valueOf(attention.size()),
                "see above: " + String.join("; ", attention)));
    return verdict;
  }

  private static Finding engine(List<Finding> findings) {
    if (runs(findings, EngineName.CUDA)) {
      return Finding.found(
          TOPIC, "ready", "engine cuda", "--device auto takes the GPUs, --device host the cores");
    }
    return runs(findings, EngineName.HOST)
        ? Finding.found(
            TOPIC, "ready", "engine host", "no usable GPU: --device auto takes the host engine")
        : Finding.warning(TOPIC, "not ready", "no engine", "no engine can run here, see Engines");
  }

  private static boolean runs(List<Finding> findings, String engine) {
    return findings.stream()
        .anyMatch(
            finding ->
                finding.topic().equals(ENGINES)
                    && finding.name().equals(engine)
                    && finding.state() == Finding.State.FOUND);
  }

  /** Warnings, and memory that ranks need. Devices and libraries may be missing. */
  private static boolean needsAttention(Finding finding) {
    return finding.state() == Finding.State.WARNING
        || (finding.state() == Finding.State.MISSING && finding.topic().equals(MEMORY));
  }
}
