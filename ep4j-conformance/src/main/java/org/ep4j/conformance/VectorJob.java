package org.ep4j.conformance;

import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.ep4j.ExpertBuffer;
import org.ep4j.cases.CaseComparison;
import org.ep4j.cases.CaseDirectory;
import org.ep4j.cases.CaseFile;
import org.ep4j.cases.CaseRunner;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.world.CaseWatchdog;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.group.Group;
import org.ep4j.tensor.Tensor;

/**
 * Runs cases on one engine and compares their outputs. Arguments: engine, ranks per node, wire
 * between nodes, then directories of cases; each case must have as many ranks as the group.
 */
final class VectorJob implements RankJob {
  /** Number of runs of every case on the same buffer: later epochs must give the same results. */
  private static final int ROUNDS = 3;

  @Override
  public void run(Group group, List<String> arguments) {
    for (String path : arguments.subList(3, arguments.size())) {
      CaseDirectory directory = CaseDirectory.open(Path.of(path));
      String what = "rank " + group.rank() + " of " + group.size() + ", " + path;
      try (CaseWatchdog _ = new CaseWatchdog(what, () -> "recorded case");
          CaseFile file = directory.read(group.rank());
          ExpertBuffer buffer = ExpertBuffer.open(group, config(directory, arguments))) {
        for (int round = 0; round < ROUNDS; round++) {
          try (Arena arena = Arena.ofShared()) {
            Map<String, Tensor> outputs = CaseRunner.run(buffer, file, arena);
            CaseComparison comparison = CaseComparison.of(group.rank(), file, outputs);
            if (!comparison.passed()) {
              throw new AssertionError(path + ", round " + round + ": " + comparison);
            }
          }
        }
      }
    }
  }

  private static BufferConfig config(CaseDirectory directory, List<String> arguments) {
    return directory
        .config()
        .engine(arguments.getFirst())
        .ranksPerNode(Integer.parseInt(arguments.get(1)))
        .wire(arguments.get(2))
        .build();
  }
}
