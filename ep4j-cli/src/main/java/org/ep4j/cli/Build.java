package org.ep4j.cli;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;

/** Version and git revision of this program. */
public final class Build {
  private static final String UNKNOWN = "unknown";

  private Build() {}

  /** The version of the build. */
  public static String version() {
    Properties properties = new Properties();
    try (InputStream in = Build.class.getResourceAsStream("build.properties")) {
      if (in != null) {
        properties.load(in);
      }
    } catch (IOException e) {
      throw new UncheckedIOException("build.properties cannot be read", e);
    }
    return properties.getProperty("version", UNKNOWN);
  }

  /**
   * The git commit of the working tree that this program was built from, or {@code unknown}. A
   * bundle stores it in a file.
   */
  public static String revision() {
    for (Path at = firstJar(); at != null; at = at.getParent()) {
      Path git = at.resolve(".git");
      Path note = at.resolve("revision");
      if (Files.isRegularFile(note)) {
        return read(note);
      }
      if (Files.isDirectory(git)) {
        return revisionIn(git);
      }
    }
    return UNKNOWN;
  }

  /** The first entry of the module path or class path: a jar or directory of this program. */
  static Path firstJar() {
    String path = System.getProperty("jdk.module.path", System.getProperty("java.class.path", ""));
    return Path.of(path.split(java.io.File.pathSeparator, 2)[0]).toAbsolutePath();
  }

  private static String read(Path note) {
    try {
      return Files.readString(note).strip();
    } catch (IOException e) {
      return UNKNOWN;
    }
  }

  static String revisionIn(Path git) {
    try {
      String head = Files.readString(git.resolve("HEAD")).strip();
      if (!head.startsWith("ref: ")) {
        return head;
      }
      String name = head.substring("ref: ".length());
      Path loose = git.resolve(name);
      return Files.exists(loose) ? Files.readString(loose).strip() : packed(git, name);
    } catch (IOException e) {
      return UNKNOWN;
    }
  }

  private static String packed(Path git, String name) throws IOException {
    Path packed = git.resolve("packed-refs");
    List<String> lines = Files.exists(packed) ? Files.readAllLines(packed) : List.of();
    for (String line : lines) {
      if (line.endsWith(" " + name)) {
        return line.substring(0, line.indexOf(' '));
      }
    }
    return UNKNOWN;
  }
}
