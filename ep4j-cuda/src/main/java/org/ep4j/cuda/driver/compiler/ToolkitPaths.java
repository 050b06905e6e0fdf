package org.ep4j.cuda.driver.compiler;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Candidate locations of a library of the CUDA toolkit: the value of a variable, the loader path,
 * CUDA's own directories, and the Python packages that contain parts of CUDA.
 *
 * @param variable environment variable with the path of the library or of its directory
 * @param stem {@code libnvrtc}
 * @param driverMajor major CUDA version of the driver: libraries of a newer version are tried last,
 *     because the driver may reject their output; 0 for unknown
 * @param environment environment of the process
 */
public record ToolkitPaths(
    String variable, String stem, int driverMajor, Map<String, String> environment) {
  private static final int NEWEST_MAJOR = 15;
  private static final int OLDEST_MAJOR = 12;

  /** Names and paths in search order. Paths are those of existing files; names may not exist. */
  public List<String> candidates() {
    String named = environment.getOrDefault(variable, "");
    if (!named.isEmpty()) {
      return named(named);
    }
    List<Path> directories = LibraryDirectories.of(environment);
    Set<String> found = new LinkedHashSet<>();
    for (int major : majors()) {
      String name = stem + ".so." + major;
      found.add(name);
      for (Path directory : directories) {
        Path file = directory.resolve(name);
        if (Files.isRegularFile(file)) {
          found.add(file.toString());
        }
      }
    }
    return List.copyOf(found);
  }

  /** Message for a missing library. */
  public String missing(String what) {
    String named = environment.getOrDefault(variable, "");
    return named.isEmpty()
        ? "no "
            + what
            + ": searched for "
            + stem
            + ".so."
            + OLDEST_MAJOR
            + " and newer on the loader path, in /usr/local/cuda*, CUDA_HOME and the Python"
            + " packages nvidia/*/lib; install the CUDA toolkit's "
            + what
            + ", or set its path in "
            + variable
        : "no "
            + what
            + ": "
            + variable
            + " is '"
            + named
            + "', neither a loadable library nor a directory that contains it";
  }

  private List<String> named(String value) {
    Path path = Path.of(value);
    if (!Files.isDirectory(path)) {
      return List.of(value);
    }
    List<String> found = new ArrayList<>();
    for (int major : majors()) {
      Path file = path.resolve(stem + ".so." + major);
      if (Files.isRegularFile(file)) {
        found.add(file.toString());
      }
    }
    return found;
  }

  /** The driver's major version and older versions in descending order, then newer versions. */
  private List<Integer> majors() {
    List<Integer> majors = new ArrayList<>();
    for (int major = NEWEST_MAJOR; major >= OLDEST_MAJOR; major--) {
      majors.add(major);
    }
    majors.sort(Comparator.comparing(major -> driverMajor > 0 && major > driverMajor));
    return majors;
  }
}
