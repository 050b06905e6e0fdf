package org.ep4j.cuda.backend;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.ep4j.cuda.driver.LibraryDirectories;

/**
 * Where the library of a backend may be: what its variables say, what the loader finds, CUDA's own
 * directories, the Python packages that bring it along.
 *
 * @param file {@code libnccl.so.2}
 * @param variable may name the library, the directory that holds it, or the one above that
 * @param foreign variables of others that name such a directory; asked after that
 * @param packages what to install
 * @param environment of the process
 */
public record BackendLibrary(
    String file,
    String variable,
    List<String> foreign,
    String packages,
    Map<String, String> environment) {
  /** Levels above a file of a library where headers may be. */
  private static final int LEVELS = 2;

  /** Where packages of a distribution put headers and archives. */
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

  /** Names and paths in the order in which they are tried. Paths exist; names may not. */
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
   * Where a file lies that comes with the library, a header or an archive.
   *
   * @param name of the file
   * @param loaded name or path of the library that is used: around that first
   */
  public Optional<Path> directoryWith(String name, String loaded) {
    Set<Path> places = new LinkedHashSet<>();
    addAround(places, loaded);
    addAround(places, environment.getOrDefault(variable, ""));
    candidates().forEach(each -> addAround(places, each));
    places.addAll(DEVELOPERS);
    return places.stream().filter(place -> Files.isRegularFile(place.resolve(name))).findFirst();
  }

  /** Directories near a library, its directory, or the one above that. */
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

  /** What to say where nothing was found. */
  public String missing() {
    String named = environment.getOrDefault(variable, "");
    return named.isEmpty()
        ? "no "
            + file
            + " that can be loaded: looked on the loader path, in /usr/local/cuda*, CUDA_HOME and the"
            + " Python packages nvidia/*/lib; install "
            + packages
            + ", or name its directory in "
            + variable
        : "no "
            + file
            + ": "
            + variable
            + " is '"
            + named
            + "', which is no library that can be loaded, nor a directory with one";
  }
}
