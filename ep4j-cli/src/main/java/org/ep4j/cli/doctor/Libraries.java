package org.ep4j.cli.doctor;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Shared libraries as files. This class loads none: a library that crashes on load must not end the
 * report.
 */
final class Libraries {
  private static final List<String> USUAL =
      List.of(
          "/usr/local/lib",
          "/usr/lib/x86_64-linux-gnu",
          "/usr/lib/aarch64-linux-gnu",
          "/lib/x86_64-linux-gnu",
          "/lib/aarch64-linux-gnu",
          "/usr/lib64",
          "/lib64",
          "/usr/lib",
          "/lib");

  private final Set<Path> directories = new LinkedHashSet<>();

  /** The library directories of the loader, of CUDA and of Python packages. */
  Libraries(Map<String, String> environment) {
    addPathList(environment.getOrDefault("LD_LIBRARY_PATH", ""));
    for (Path file : SystemFiles.entries(Path.of("/etc/ld.so.conf.d"), "*.conf")) {
      SystemFiles.lines(file).stream().filter(line -> line.startsWith("/")).forEach(this::add);
    }
    USUAL.forEach(this::add);
    addToolkit(environment.getOrDefault("CUDA_HOME", "/usr/local/cuda"));
    SystemFiles.entries(Path.of("/usr/local"), "cuda-*").forEach(p -> addToolkit(p.toString()));
    for (String lib : List.of("/usr/lib", "/usr/local/lib")) {
      for (Path python : SystemFiles.entries(Path.of(lib), "python3*")) {
        addPackages(python.resolve("dist-packages"));
        addPackages(python.resolve("site-packages"));
      }
    }
  }

  private void add(String directory) {
    SystemFiles.path(directory).filter(Files::isDirectory).ifPresent(directories::add);
  }

  private void addPathList(String list) {
    for (String directory : list.split(File.pathSeparator, -1)) {
      add(directory);
    }
  }

  private void addToolkit(String directory) {
    add(directory + "/lib64");
    add(directory + "/targets/x86_64-linux/lib");
    add(directory + "/targets/sbsa-linux/lib");
  }

  private void addPackages(Path packages) {
    for (Path nvidia : SystemFiles.entries(packages.resolve("nvidia"), "*")) {
      add(nvidia.resolve("lib").toString());
    }
  }

  /**
   * The first library with this name ({@code libnccl.so.2}, or a glob) with links resolved, so that
   * the file name contains the version.
   */
  Optional<Path> find(String name) {
    for (Path directory : directories) {
      for (Path file : SystemFiles.entries(directory, name)) {
        try {
          return Optional.of(file.toRealPath());
        } catch (IOException e) {
          // A broken link: another directory may have the library.
        }
      }
    }
    return Optional.empty();
  }

  /** Number of searched directories. */
  int searched() {
    return directories.size();
  }
}
