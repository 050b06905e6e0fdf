package org.ep4j.cli.vectors;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Assumptions;

/** The directory of the recorded vectors, if present. */
final class RecordedVectors {
  private RecordedVectors() {}

  /** The directory; without it, skips the test with the searched path. */
  static Path directory() {
    String variable = System.getenv("EP4J_VECTORS");
    String property = System.getProperty("ep4j.vectors", "");
    String place = variable != null && !variable.isBlank() ? variable : property;
    Assumptions.assumeTrue(
        !place.isBlank() && Files.isDirectory(Path.of(place)),
        "no recorded vectors in '" + place + "': set EP4J_VECTORS or -Dep4j.vectors");
    return Path.of(place);
  }
}
