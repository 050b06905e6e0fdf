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

  /** Builds the library before the first call loads it; skips the test without g++. */
  static synchronized void require() throws IOException, InterruptedException {
    Path library = Path.of(System.getenv().getOrDefault("EP4J_CUBLAS", ""));
    assumeTrue(library.endsWith("host-cublas/libcublas.so"), "cuBLAS of this process is no test's");
    HostCompiler.require("to build cuBLAS for the host");
    Path directory = Objects.requireNonNull(library.getParent());
    Files.createDirectories(directory);
    Path source = directory.resolve(SOURCE);
    String text;
    try (InputStream in = HostCublas.class.getResourceAsStream(SOURCE)) {
      text = new String(Objects.requireNonNull(in, SOURCE).readAllBytes(), StandardCharsets.UTF_8);
    }
    boolean built =
        Files.exists(library) && Files.exists(source) && Files.readString(source).equals(text);
    if (!built) {
      Files.writeString(source, text);
      HostCompiler.compile(
          source, library, "-std=c++20", "-O2", "-ffp-contract=off", "-shared", "-fPIC");
    }
  }
}
