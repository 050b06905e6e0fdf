package org.ep4j.conformance.world;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;

/**
 * Native libraries that violate the expectations of a binding, compiled with gcc for a test, and a
 * program that loads them in a separate JVM: a JVM does not unload libraries.
 */
public final class StubLibraries {
  private static final long LONGEST_SECONDS = 60;

  private StubLibraries() {}

  /** Compiles a library; skips the test without gcc. */
  public static Path compile(Path directory, String file, String source)
      throws IOException, InterruptedException {
    Path code = Files.writeString(directory.resolve(file + ".c"), source);
    Path library = directory.resolve(file);
    List<String> command =
        List.of("gcc", "-shared", "-fPIC", "-o", library.toString(), code.toString());
    try {
      String said = run(new ProcessBuilder(command));
      if (!Files.exists(library)) {
        throw new IllegalStateException(said);
      }
    } catch (IOException e) {
      Assumptions.abort("no gcc: " + e.getMessage());
    }
    return library;
  }

  /**
   * Source of functions that succeed and do nothing.
   *
   * @param source functions of the same library that do something
   */
  public static String withOthers(String source, Stream<String> symbols) {
    return symbols
        .filter(symbol -> !source.contains(" " + symbol + "("))
        .map(symbol -> "long " + symbol + "(void) { return 0; }\n")
        .collect(Collectors.joining("", source, ""));
  }

  /** Output of {@code main}, without warnings of the JVM. */
  public static String run(Class<?> main, Map<String, String> variables)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-XX:+UseSerialGC", "-Xmx128m", "--enable-native-access=ALL-UNNAMED"));
    String modules = System.getProperty("jdk.module.path");
    String classes = System.getProperty("java.class.path");
    command.addAll(
        List.of("-cp", modules == null ? classes : classes + File.pathSeparator + modules));
    command.add(main.getName());
    ProcessBuilder builder = new ProcessBuilder(command);
    builder.environment().putAll(variables);
    return run(builder);
  }

  private static String run(ProcessBuilder builder) throws IOException, InterruptedException {
    Path output = Files.createTempFile("ep4j-output", ".txt");
    try {
      Process process = builder.redirectErrorStream(true).redirectOutput(output.toFile()).start();
      boolean ended = process.waitFor(LONGEST_SECONDS, TimeUnit.SECONDS);
      if (!ended) {
        process.destroyForcibly();
      }
      // The end of a program may cut a character in half.
      String said =
          new String(Files.readAllBytes(output), StandardCharsets.UTF_8)
              .lines()
              .filter(line -> !line.startsWith("WARNING:"))
              .collect(Collectors.joining("\n"));
      if (!ended || process.exitValue() != 0) {
        throw new IllegalStateException(builder.command().getFirst() + " failed:\n" + said);
      }
      return said;
    } finally {
      Files.delete(output);
    }
  }
}
