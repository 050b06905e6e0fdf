package org.ep4j.cuda.driver;

import java.io.IOException;
import java.nio.file.DirectoryStream;
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
record ToolkitPlaces(
    String variable, String stem, int driverMajor, Map<String, String> environment) {
  private static final int NEWEST_MAJOR = 15;
  private static final int OLDEST_MAJOR = 12;

  /** Names and paths in the order in which they are tried. Files exist; names may not. */
  List<String> candidates() {
    String named = environment.getOrDefault(variable, "");
    if (!named.isEmpty()) {
      return named(named);
    }
    List<Path> directories = directories();
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

  private List<Path> directories() {
    Set<Path> found = new LinkedHashSet<>();
    for (String home : List.of("CUDA_HOME", "CUDA_PATH")) {
      String value = environment.getOrDefault(home, "");
      if (!value.isEmpty()) {
        addToolkit(found, Path.of(value));
      }
    }
    for (Path toolkit : entries(Path.of("/usr/local"), "cuda*")) {
      addToolkit(found, toolkit);
    }
    for (Path python : pythonRoots()) {
      for (Path version : entries(python, "python3*")) {
        addPackages(found, version.resolve("dist-packages"));
        addPackages(found, version.resolve("site-packages"));
      }
    }
    return List.copyOf(found);
  }

  private List<Path> pythonRoots() {
    List<Path> roots = new ArrayList<>();
    for (String prefix : List.of("VIRTUAL_ENV", "CONDA_PREFIX")) {
      String value = environment.getOrDefault(prefix, "");
      if (!value.isEmpty()) {
        roots.add(Path.of(value, "lib"));
      }
    }
    String home = environment.getOrDefault("HOME", "");
    if (!home.isEmpty()) {
      roots.add(Path.of(home, ".local", "lib"));
    }
    roots.add(Path.of("/usr/local/lib"));
    roots.add(Path.of("/usr/lib"));
    roots.add(Path.of("/opt/conda/lib"));
    return roots;
  }

  private static void addToolkit(Set<Path> found, Path home) {
    found.add(home.resolve("targets/x86_64-linux/lib"));
    found.add(home.resolve("targets/sbsa-linux/lib"));
    found.add(home.resolve("lib64"));
    found.add(home.resolve("lib"));
  }

  private static void addPackages(Set<Path> found, Path packages) {
    for (Path part : entries(packages.resolve("nvidia"), "*")) {
      found.add(part.resolve("lib"));
    }
  }

  /** Entries of a directory that match, from the last name to the first; none if there is none. */
  private static List<Path> entries(Path directory, String glob) {
    List<Path> found = new ArrayList<>();
    if (Files.isDirectory(directory)) {
      try (DirectoryStream<Path> stream = Files.newDirectoryStream(directory, glob)) {
        stream.forEach(found::add);
      } catch (IOException e) {
        return List.of(); // a directory that cannot be read holds nothing for us
      }
    }
    found.sort(Comparator.reverseOrder());
    return found;
  }
}
