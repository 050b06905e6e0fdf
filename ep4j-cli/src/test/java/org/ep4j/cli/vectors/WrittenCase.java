package org.ep4j.cli.vectors;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.ep4j.cases.CaseComparison;
import org.ep4j.cases.CaseDirectory;
import org.ep4j.cases.CaseFile;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.tensor.Tensor;

/** Compares what {@code run} has written with a recorded case. */
final class WrittenCase {
  private WrittenCase() {}

  /** Requires the outputs and the metadata of the case, from all of its ranks. */
  static void isThatOf(CaseDirectory expected, Path output) {
    for (int rank = 0; rank < expected.ranks(); rank++) {
      try (CaseFile recorded = expected.read(rank);
          SafetensorsFile ours =
              SafetensorsFile.open(output.resolve("rank" + rank + ".safetensors"))) {
        Map<String, Tensor> outputs = new HashMap<>();
        ours.names().forEach(n -> outputs.put(n, ours.tensor(n)));
        CaseComparison comparison = CaseComparison.of(rank, recorded, outputs);
        assertThat(comparison.wrong()).isEmpty();
        assertThat(comparison.compared()).contains("recv_x", "combined_x");
        assertThat(ours.metadata()).isEqualTo(recorded.strings());
      }
    }
  }
}
