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
import org.ep4j.ErrorCode;
import org.ep4j.Tensor;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.io.SafetensorsWriter;

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
    this.name = "rank" + rank + ".safetensors";
  }

  private static Path unfinished(Path output) {
    return output.resolve(".unfinished");
  }

  /** Writes the file of this rank, and creates the directory if needed; collective. */
  void write(
      Map<String, String> metadata, Map<String, Tensor> tensors, CommandAgreement agreement) {
    try {
      Files.createDirectories(unfinished);
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.OUTPUT_NOT_WRITTEN.message(output + ": cannot be created: " + e), e);
    }
    SafetensorsWriter.write(unfinished.resolve(name), metadata, tensors);
    agreement.barrier();
    try {
      Files.move(
          unfinished.resolve(name), output.resolve(name), StandardCopyOption.REPLACE_EXISTING);
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.OUTPUT_NOT_WRITTEN.message(output.resolve(name) + ": cannot be written: " + e),
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
              unfinished(output) + ": cannot be removed: " + e),
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
          ErrorCode.UNFINISHED_NOT_REMOVED.message(unfinished + ": cannot be removed: " + e), e);
    }
  }
}
