package org.ep4j.moe;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import org.ep4j.conformance.world.HostCompiler;

/**
 * cuBLAS over memory of the host. Only processes whose variable {@code EP4J_CUBLAS} names it have
 * it, as those that Maven starts for the tests of this module.
 */
final class HostCublas {
  private static final String SOURCE = "host_cublas.cpp";

  private HostCublas() {}

  /** Builds a library without grouped products, as before CUDA 12.5, in a directory. */
  static Path withoutGroups(Path directory) throws IOException, InterruptedException {
    Path source = directory.resolve(SOURCE);
    Files.writeString(source, text());
    Path library = directory.resolve("libcublas.so");
    HostCompiler.compile(
        source, library, "-std=c++20", "-O1", "-DWITHOUT_GROUPS", "-shared", "-fPIC");
    return library;
  }

  private static String text() throws IOException {
    try (InputStream in = HostCublas.class.getResourceAsStream(SOURCE)) {
      return new String(Objects.requireNonNull(in, SOURCE).readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  /** Builds the library before the first call loads it; skips the test without g++. */
  static synchronized void require() throws IOException, InterruptedException {
    Path library = Path.of(System.getenv().getOrDefault("EP4J_CUBLAS", ""));
    assumeTrue(library.endsWith("host-cublas/libcublas.so"), "cuBLAS of this process is no test's");
    HostCompiler.require("to build cuBLAS for the host");
    Path directory = Objects.requireNonNull(library.getParent());
    Files.createDirectories(directory);
    Path source = directory.resolve(SOURCE);
    String text = text();
    boolean built =
        Files.exists(library) && Files.exists(source) && Files.readString(source).equals(text);
    if (!built) {
      Files.writeString(source, text);
      HostCompiler.compile(
          source, library, "-std=c++20", "-O2", "-ffp-contract=off", "-shared", "-fPIC");
    }
  }
}
