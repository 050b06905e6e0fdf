package org.ep4j.cli;

import java.nio.file.Path;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/**
 * Reads the name of a file or directory. An empty one is refused: it comes from a variable of a
 * shell that is not set, and Java takes it for the current directory.
 */
final class PathArgument implements ITypeConverter<Path> {
  @Override
  public Path convert(String value) {
    if (value.isEmpty()) {
      throw new TypeConversionException("'" + value + "' is not a path");
    }
    return Path.of(value);
  }
}
