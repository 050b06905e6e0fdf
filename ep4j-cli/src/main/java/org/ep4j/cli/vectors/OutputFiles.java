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
import org.ep4j.Tensor;
import org.ep4j.cli.launch.CommandAgreement;
import org.ep4j.io.SafetensorsWriter;

/**
 * Output files of all ranks: all or none of them appear. Each rank writes its file into a directory
 * of unfinished files; once all have, each moves its own into place.
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

  /** Writes this rank's file, and makes the directory if it is not there; collective. */
  void write(
      Map<String, String> metadata, Map<String, Tensor> tensors, CommandAgreement agreement) {
    try {
      Files.createDirectories(unfinished);
    } catch (IOException e) {
      throw new UncheckedIOException(output + ": cannot be made: " + e, e);
    }
    SafetensorsWriter.write(unfinished.resolve(name), metadata, tensors);
    agreement.barrier();
    try {
      Files.move(
          unfinished.resolve(name), output.resolve(name), StandardCopyOption.REPLACE_EXISTING);
    } catch (IOException e) {
      throw new UncheckedIOException(output.resolve(name) + ": cannot be written: " + e, e);
    }
    agreement.barrier();
  }

  /** Removes what ranks that were ended have left. */
  static void sweep(Path output) {
    try (Stream<Path> left = Files.list(unfinished(output))) {
      for (Path file : left.toList()) {
        Files.deleteIfExists(file);
      }
      Files.deleteIfExists(unfinished(output));
    } catch (NoSuchFileException | NotDirectoryException e) {
      // Nothing is left.
    } catch (IOException e) {
      throw new UncheckedIOException(unfinished(output) + ": cannot be removed: " + e, e);
    }
  }

  /** Removes what is unfinished. */
  @Override
  public void close() {
    if (!Files.isDirectory(unfinished)) {
      return;
    }
    try {
      Files.deleteIfExists(unfinished.resolve(name));
      Files.deleteIfExists(unfinished);
    } catch (DirectoryNotEmptyException | NoSuchFileException e) {
      // Another rank still has its file there, and removes the directory after it.
    } catch (IOException e) {
      throw new UncheckedIOException(unfinished + ": cannot be removed: " + e, e);
    }
  }
}
