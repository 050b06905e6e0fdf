package org.ep4j.cuda.backend;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.ep4j.cuda.driver.compiler.LibraryDirectories;

/**
 * Candidate locations of a backend's library: the values of variables, the loader path, CUDA's own
 * directories, and the Python packages that contain the library.
 *
 * @param file {@code libnccl.so.2}
 * @param variable environment variable with the library, its directory, or the parent of that
 *     directory
 * @param foreign variables of other projects with such a directory, searched next
 * @param packages packages to install
 * @param environment environment of the process
 */
public record BackendLibrary(
    String file,
    String variable,
    List<String> foreign,
    String packages,
    Map<String, String> environment) {
  /** Levels above a library file that may contain headers. */
  private static final int LEVELS = 2;

  /** Directories of headers and archives of distribution packages. */
  private static final List<Path> DEVELOPERS =
      List.of(
          Path.of("/usr/include"),
          Path.of("/usr/local/include"),
          Path.of("/usr/lib/x86_64-linux-gnu"),
          Path.of("/usr/lib/aarch64-linux-gnu"));

  /** Copies the lists. */
  public BackendLibrary {
    foreign = List.copyOf(foreign);
    environment = Map.copyOf(environment);
  }

  /** Names and paths in search order. Paths exist; names may not. */
  public List<String> candidates() {
    Set<String> found = new LinkedHashSet<>();
    String named = environment.getOrDefault(variable, "");
    if (!named.isEmpty()) {
      addHome(found, named);
      return found.isEmpty() ? List.of(named) : List.copyOf(found);
    }
    for (String each : foreign) {
      String home = environment.getOrDefault(each, "");
      if (!home.isEmpty()) {
        addHome(found, home);
      }
    }
    found.add(file);
    for (Path directory : LibraryDirectories.of(environment)) {
      addFile(found, directory.resolve(file));
    }
    return List.copyOf(found);
  }

  private void addHome(Set<String> found, String home) {
    Path path = Path.of(home);
    addFile(found, path);
    addFile(found, path.resolve(file));
    addFile(found, path.resolve("lib").resolve(file));
    addFile(found, path.resolve("lib64").resolve(file));
  }

  private static void addFile(Set<String> found, Path file) {
    if (Files.isRegularFile(file)) {
      found.add(file.toString());
    }
  }

  /**
   * Directory of a file that is shipped with the library, a header or an archive.
   *
   * @param name name of the file
   * @param loaded name or path of the loaded library: directories around it are searched first
   */
  public Optional<Path> directoryWith(String name, String loaded) {
    Set<Path> places = new LinkedHashSet<>();
    addAround(places, loaded);
    addAround(places, environment.getOrDefault(variable, ""));
    candidates().forEach(each -> addAround(places, each));
    places.addAll(DEVELOPERS);
    return places.stream().filter(place -> Files.isRegularFile(place.resolve(name))).findFirst();
  }

  /** Adds directories around a library, around its directory, or around the parent of that. */
  private static void addAround(Set<Path> places, String path) {
    Path at = path.contains("/") ? Path.of(path) : null;
    for (int i = 0; i <= LEVELS && at != null; i++) {
      places.add(at);
      for (String child : List.of("include", "lib", "lib64")) {
        places.add(at.resolve(child));
      }
      at = at.getParent();
    }
  }

  /** Message for a missing library. */
  public String missing() {
    String named = environment.getOrDefault(variable, "");
    return named.isEmpty()
        ? "no "
            + file
            + ": searched the loader path, /usr/local/cuda*, CUDA_HOME and the"
            + " Python packages nvidia/*/lib; install "
            + packages
            + ", or set its directory in "
            + variable
        : "no "
            + file
            + ": "
            + variable
            + " is '"
            + named
            + "', neither a loadable library nor a directory that contains it";
  }
}
