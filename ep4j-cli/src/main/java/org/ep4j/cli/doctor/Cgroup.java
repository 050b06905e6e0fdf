package org.ep4j.cli.doctor;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** Limits of the control group (version 2) of this process. */
final class Cgroup {
  private static final Path ROOT = Path.of("/sys/fs/cgroup");

  private Cgroup() {}

  /** The first line of a control file in the innermost group that has this file. */
  static Optional<String> line(String file) {
    Path group = ROOT;
    for (String line : SystemFiles.lines(Path.of("/proc/self/cgroup"))) {
      if (line.startsWith("0::/")) {
        group = ROOT.resolve(line.substring("0::/".length()));
      }
    }
    for (Path at = group.normalize(); at != null && at.startsWith(ROOT); at = at.getParent()) {
      if (Files.isReadable(at.resolve(file))) {
        return SystemFiles.line(at.resolve(file));
      }
    }
    return Optional.empty();
  }
}
