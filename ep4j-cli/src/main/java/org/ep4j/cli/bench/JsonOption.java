package org.ep4j.cli.bench;

import java.nio.file.Files;
import java.nio.file.Path;
import org.ep4j.cli.CommandSpecs;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** Where what was measured is written, besides what is printed. */
final class JsonOption {
  @Option(names = "--json", paramLabel = "FILE", description = "Write everything as JSON too.")
  private @Nullable Path file;

  JsonOption() {}

  /** The file, null for none; refused here if it could not be written once all is measured. */
  @Nullable Path file(@Nullable CommandSpec spec) {
    if (file == null) {
      return null;
    }
    CommandSpecs.check(
        spec, !Files.isDirectory(file), "--json " + file + ": is a directory: name a file in it");
    Path directory = file.toAbsolutePath().resolveSibling(".");
    CommandSpecs.check(
        spec,
        Files.isDirectory(directory),
        "--json " + file + ": its directory does not exist: make it first");
    CommandSpecs.check(
        spec,
        Files.isWritable(directory),
        "--json " + file + ": its directory cannot be written: name another");
    return file;
  }
}
