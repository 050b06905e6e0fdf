package org.ep4j.cuda.driver.compiler;

import java.io.File;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Library directories of CUDA, and of the Python packages that contain parts of CUDA. */
public final class LibraryDirectories {
  private LibraryDirectories() {}

  /**
   * All library directories of this machine, without duplicates, in search order.
   *
   * @param environment environment of the process
   */
  public static List<Path> of(Map<String, String> environment) {
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
    for (Path python : pythonRoots(environment)) {
      for (Path version : entries(python, "python3*")) {
        addPackages(found, version.resolve("dist-packages"));
        addPackages(found, version.resolve("site-packages"));
      }
    }
    return List.copyOf(found);
  }

  private static List<Path> pythonRoots(Map<String, String> environment) {
    List<Path> roots = new ArrayList<>();
    for (String prefix : List.of("VIRTUAL_ENV", "CONDA_PREFIX")) {
      String value = environment.getOrDefault(prefix, "");
      if (!value.isEmpty()) {
        roots.add(Path.of(value, "lib"));
      }
    }
    for (String entry : environment.getOrDefault("PATH", "").split(File.pathSeparator, -1)) {
      // The Python of a virtual environment that is used without activation.
      Path directory = Path.of(entry);
      Path above = directory.getParent();
      if (above != null && Files.exists(directory.resolve("python3"))) {
        roots.add(above.resolve("lib"));
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

  /** Matching entries of a directory in descending order of names; empty if none match. */
  private static List<Path> entries(Path directory, String glob) {
    List<Path> found = new ArrayList<>();
    if (Files.isDirectory(directory)) {
      try (DirectoryStream<Path> stream = Files.newDirectoryStream(directory, glob)) {
        stream.forEach(found::add);
      } catch (IOException | DirectoryIteratorException e) {
        return List.of(); // an unreadable directory counts as empty
      }
    }
    found.sort(Comparator.reverseOrder());
    return found;
  }
}
