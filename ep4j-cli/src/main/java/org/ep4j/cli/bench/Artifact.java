package org.ep4j.cli.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.Map;
import org.ep4j.ErrorCode;
import org.ep4j.cli.Build;
import org.ep4j.cli.doctor.Machine;
import org.ep4j.cli.text.Json;

/** The JSON file of a measurement. */
final class Artifact {
  private Artifact() {}

  /** The first fields of every artifact: program, time, environment. */
  static Map<String, Object> head() {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("ep4j", Build.version());
    tree.put("git", Build.revision());
    tree.put("time", Instant.now().truncatedTo(ChronoUnit.SECONDS).toString());
    tree.put("environment", Machine.tree());
    return tree;
  }

  /** Writes the file atomically. */
  static void write(Path file, Map<String, Object> tree) {
    Path unfinished = file.resolveSibling(file.getFileName() + ".unfinished");
    try {
      Files.writeString(unfinished, Json.text(tree));
      Files.move(unfinished, file, StandardCopyOption.REPLACE_EXISTING);
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.OUTPUT_NOT_WRITTEN.message(file + ": cannot be written: " + e), e);
    }
  }
}
