package org.ep4j.cli.doctor;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;

/** Small files in which the kernel describes the machine; an unreadable file counts as missing. */
final class SystemFiles {
  private static final int LARGEST = 1 << 20;

  private SystemFiles() {}

  /** The lines of a file; empty if it cannot be read. */
  static List<String> lines(Path file) {
    // ISO 8859-1 decodes every byte: an unexpected file must not end the report.
    try (var in = Files.newInputStream(file)) {
      byte[] bytes = in.readNBytes(LARGEST);
      return new String(bytes, StandardCharsets.ISO_8859_1).lines().toList();
    } catch (IOException | SecurityException e) {
      return List.of();
    }
  }

  /** The first line of a file, stripped. */
  static Optional<String> line(Path file) {
    return lines(file).stream().findFirst().map(String::strip).filter(line -> !line.isEmpty());
  }

  /** The value behind {@code name} in a file of {@code name : value} lines. */
  static Optional<String> value(Path file, String name) {
    return lines(file).stream()
        .filter(line -> line.contains(":"))
        .filter(line -> line.substring(0, line.indexOf(':')).strip().equals(name))
        .map(line -> line.substring(line.indexOf(':') + 1).strip())
        .findFirst();
  }

  /** A number with an optional unit of kB behind {@code name}, in bytes. */
  static Optional<Long> kilobytes(Path file, String name) {
    return value(file, name)
        .map(text -> text.replace("kB", "").strip())
        .filter(text -> !text.isEmpty() && text.chars().allMatch(Character::isDigit))
        .map(text -> Long.parseLong(text) * 1024);
  }

  /** Entries of a directory whose names match a glob, sorted. */
  static List<Path> entries(Path directory, String glob) {
    List<Path> entries = new ArrayList<>();
    try (DirectoryStream<Path> stream = Files.newDirectoryStream(directory, glob)) {
      stream.forEach(entries::add);
    } catch (IOException | java.nio.file.DirectoryIteratorException | SecurityException e) {
      return List.of();
    }
    Collections.sort(entries);
    return entries;
  }

  /** A path from a list in a variable; empty if the text is no path. */
  static Optional<Path> path(String text) {
    try {
      return text.isBlank() ? Optional.empty() : Optional.of(Path.of(text.strip()));
    } catch (InvalidPathException e) {
      return Optional.empty();
    }
  }
}
