package org.ep4j.cuda.driver;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Where a library of the CUDA toolkit may be: what a variable says, what the loader finds, CUDA's
 * own directories, the Python packages that bring CUDA along.
 *
 * @param variable may name the library, or the directory that holds it
 * @param stem {@code libnvrtc}
 * @param driverMajor major CUDA version of the driver: libraries of a newer one come last, because
 *     the driver may refuse what they make; 0 for unknown
 * @param environment of the process
 */
record ToolkitPaths(
    String variable, String stem, int driverMajor, Map<String, String> environment) {
  private static final int NEWEST_MAJOR = 15;
  private static final int OLDEST_MAJOR = 12;

  /** Names and paths in the order in which they are tried. Files exist; names may not. */
  List<String> candidates() {
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

  /** What to say where nothing was found. */
  String missing(String what) {
    String named = environment.getOrDefault(variable, "");
    return named.isEmpty()
        ? "no "
            + what
            + ": looked for "
            + stem
            + ".so."
            + OLDEST_MAJOR
            + " and newer on the loader path, in /usr/local/cuda*, CUDA_HOME and the Python packages"
            + " nvidia/*/lib; install the CUDA toolkit's "
            + what
            + ", or name the library in "
            + variable
        : "no "
            + what
            + ": "
            + variable
            + " is '"
            + named
            + "', which is no library that can be loaded, nor a directory with one";
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

  /** The driver's major version and older ones first, from new to old; then newer ones. */
  private List<Integer> majors() {
    List<Integer> majors = new ArrayList<>();
    for (int major = NEWEST_MAJOR; major >= OLDEST_MAJOR; major--) {
      majors.add(major);
    }
    majors.sort(Comparator.comparing(major -> driverMajor > 0 && major > driverMajor));
    return majors;
  }
}
