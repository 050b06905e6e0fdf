package org.ep4j.conformance;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.ep4j.cases.CaseDirectory;
import org.ep4j.cases.SeededCase;
import org.ep4j.conformance.world.Available;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.tensor.DType;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/**
 * Recorded vectors, and our own of sums by experts, must be reproduced bit for bit. Subclasses name
 * the engine and the world.
 */
public abstract class VectorKit extends NodesKit {
  private static final String NONE = "this engine has no such operations";

  /** For subclasses. */
  protected VectorKit() {}

  /** Whether the engine has low-latency operations; otherwise their cases are skipped. */
  protected boolean lowLatency() {
    return true;
  }

  /** The same for high throughput. */
  protected boolean highThroughput() {
    return true;
  }

  @TestFactory
  final Stream<DynamicTest> everyRecordedCaseIsReproducedBitForBit() {
    return Available.orSkipped(engine(), missing(), this::recordedCases);
  }

  private Stream<DynamicTest> recordedCases() {
    if (!world().costly()) {
      return Vectors.tests(
          one -> {
            Assumptions.assumeTrue(possible(one), NONE);
            run(List.of(one));
          });
    }
    Map<Integer, List<CaseDirectory>> bySize = new TreeMap<>();
    for (CaseDirectory one : Vectors.cases()) {
      if (possible(one)) {
        bySize.computeIfAbsent(one.ranks(), ranks -> new ArrayList<>()).add(one);
      }
    }
    return bySize.isEmpty()
        ? Vectors.tests(one -> Assumptions.abort(NONE))
        : bySize.entrySet().stream()
            .map(
                group ->
                    DynamicTest.dynamicTest(
                        "all cases of " + group.getKey() + " ranks", () -> run(group.getValue())));
  }

  /** Each number of ranks has the same tokens, with the same results of the oracle. */
  @TestFactory
  final Stream<DynamicTest> sumsByExpertsHaveTheBitsOfTheOracle(@TempDir Path folder) {
    return Available.orSkipped(
        engine(),
        missing(),
        () ->
            (world().costly() ? Stream.of(2) : Stream.of(1, 2, 4))
                .map(
                    ranks ->
                        DynamicTest.dynamicTest(
                            ranks + " ranks", () -> run(seededCases(folder, ranks)))));
  }

  private List<CaseDirectory> seededCases(Path folder, int ranks) throws IOException {
    List<CaseDirectory> cases = new ArrayList<>();
    if (lowLatency()) {
      cases.add(seededCase(folder, true, DType.BF16, ranks));
    }
    if (highThroughput()) {
      cases.add(seededCase(folder, false, DType.BF16, ranks));
      cases.add(seededCase(folder, false, DType.FP32, ranks));
    }
    return cases;
  }

  private static CaseDirectory seededCase(Path folder, boolean lowLatency, DType dtype, int ranks)
      throws IOException {
    Path one =
        Files.createDirectory(
            folder.resolve((lowLatency ? "ll" : "ht") + "-" + dtype + "-" + ranks));
    SeededCase.write(one, TestScale.seed(), lowLatency, dtype, ranks);
    return CaseDirectory.open(one);
  }

  private boolean possible(CaseDirectory one) {
    return one.metadata().lowLatency() ? lowLatency() : highThroughput();
  }

  private void run(List<CaseDirectory> cases) {
    List<String> arguments =
        new ArrayList<>(List.of(engine(), String.valueOf(ranksPerNode()), wire()));
    cases.forEach(one -> arguments.add(one.path().toString()));
    world().run(cases.getFirst().ranks(), VectorJob.class, arguments);
  }
}
