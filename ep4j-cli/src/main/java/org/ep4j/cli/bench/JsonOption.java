package org.ep4j.cli.bench;

import java.nio.file.Files;
import java.nio.file.Path;
import org.ep4j.ErrorCode;
import org.ep4j.cli.CommandSpecs;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** The option for a JSON file with the results. */
final class JsonOption {
  @Option(names = "--json", paramLabel = "FILE", description = "Write all results as JSON, too.")
  private @Nullable Path file;

  JsonOption() {}

  /** The file, or null. Checked before the measurement, which takes long. */
  @Nullable Path file(@Nullable CommandSpec spec) {
    if (file == null) {
      return null;
    }
    CommandSpecs.check(
        spec,
        !Files.isDirectory(file),
        ErrorCode.BAD_JSON_FILE,
        "--json " + file + ": is a directory: name a file in it");
    Path directory = file.toAbsolutePath().resolveSibling(".");
    CommandSpecs.check(
        spec,
        Files.isDirectory(directory),
        ErrorCode.BAD_JSON_FILE,
        "--json " + file + ": its directory does not exist: create it first");
    CommandSpecs.check(
        spec,
        Files.isWritable(directory),
        ErrorCode.BAD_JSON_FILE,
        "--json " + file + ": its directory is not writable: name another");
    return file;
  }
}
