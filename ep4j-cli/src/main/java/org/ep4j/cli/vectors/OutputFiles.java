package org.ep4j.cli.vectors;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.stream.Stream;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.FileProblem;
import org.ep4j.io.SafetensorsWriter;
import org.ep4j.tensor.Tensor;

/**
 * Output files of all ranks, created atomically: each rank writes its file into a directory of
 * unfinished files; when all have, each rank moves its file into the output directory.
 */
final class OutputFiles implements AutoCloseable {
  private final Path output;
  private final Path unfinished;
  private final String name;

  /** The file of a rank in {@code output}. */
  OutputFiles(Path output, int rank) {
    this.output = output;
    this.unfinished = unfinished(output);
    this.name = name(rank);
  }

  private static String name(int rank) {
    return "rank" + rank + ".safetensors";
  }

  private static Path unfinished(Path output) {
    return output.resolve(".unfinished");
  }

  /**
   * Refuses an output directory that cannot be written, before the work.
   *
   * @param ranks number of files
   */
  static void check(Path output, int ranks) {
    String problem = problem(output);
    for (int rank = 0; rank < ranks && problem.isEmpty(); rank++) {
      Path file = output.resolve(name(rank));
      if (Files.exists(file) && !Files.isRegularFile(file)) {
        problem = file.getFileName() + " in it is no regular file: name another directory";
      }
    }
    if (!problem.isEmpty()) {
      throw new CommandFailure(
          ErrorCode.OUTPUT_NOT_WRITTEN, ExitCodes.FAILED, output + ": " + problem);
    }
  }

  private static String problem(Path output) {
    if (Files.exists(output)) {
      return !Files.isDirectory(output)
          ? "is not a directory: name another"
          : Files.isWritable(output) ? "" : "is not writable: name another directory";
    }
    Path parent = output.toAbsolutePath().normalize();
    while (parent != null && !Files.exists(parent)) {
      parent = parent.getParent();
    }
    return parent == null || !Files.isDirectory(parent) || !Files.isWritable(parent)
        ? "cannot be created in " + parent + ": name another directory"
        : "";
  }

  /** Writes the file of this rank, and creates the directory if needed; collective. */
  void write(
      Map<String, String> metadata, Map<String, Tensor> tensors, CommandAgreement agreement) {
    try {
      Files.createDirectories(unfinished);
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.OUTPUT_NOT_WRITTEN.message(
              output + ": cannot be created: " + FileProblem.of(e)),
          e);
    }
    SafetensorsWriter.write(unfinished.resolve(name), metadata, tensors);
    agreement.barrier();
    try {
      Files.move(
          unfinished.resolve(name),
          OutputFile.target(output.resolve(name)),
          StandardCopyOption.REPLACE_EXISTING);
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.OUTPUT_NOT_WRITTEN.message(
              output.resolve(name) + ": cannot be written: " + FileProblem.of(e)),
          e);
    }
    agreement.barrier();
  }

  /** Removes unfinished files of ranks that were ended. */
  static void sweep(Path output) {
    try (Stream<Path> left = Files.list(unfinished(output))) {
      for (Path file : left.toList()) {
        Files.deleteIfExists(file);
      }
      Files.deleteIfExists(unfinished(output));
    } catch (NoSuchFileException | NotDirectoryException e) {
      // No unfinished files.
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.UNFINISHED_NOT_REMOVED.message(
              unfinished(output) + ": cannot be removed: " + FileProblem.of(e)),
          e);
    }
  }

  /** Removes the unfinished file of this rank. */
  @Override
  public void close() {
    if (!Files.isDirectory(unfinished)) {
      return;
    }
    try {
      Files.deleteIfExists(unfinished.resolve(name));
      Files.deleteIfExists(unfinished);
    } catch (DirectoryNotEmptyException | NoSuchFileException e) {
      // Another rank still has a file in this directory, and removes the directory later.
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.UNFINISHED_NOT_REMOVED.message(
              unfinished + ": cannot be removed: " + FileProblem.of(e)),
          e);
    }
  }
}
