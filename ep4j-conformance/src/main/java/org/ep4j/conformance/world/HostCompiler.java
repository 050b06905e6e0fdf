package org.ep4j.conformance.world;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;

/** The C++ compiler of this machine, and its programs. */
public final class HostCompiler {
  private static final int COMPILE_SECONDS = 600;

  private HostCompiler() {}

  /**
   * The outcome of a program.
   *
   * @param status its exit status
   * @param output what it wrote to both streams
   */
  public record Outcome(int status, String output) {}

  /**
   * Skips the test without a compiler.
   *
   * @param purpose for the reason, for example {@code to ask about cuda.h}
   */
  public static void require(String purpose) {
    Assumptions.assumeTrue(present(), "no g++ " + purpose);
  }

  /** Whether this machine has the compiler. */
  public static boolean present() {
    for (String place : System.getenv("PATH").split(":", -1)) {
      if (Files.isExecutable(Path.of(place, "g++"))) {
        return true;
      }
    }
    return false;
  }

  /** Version text of the compiler, part of the cache key of compiled programs. */
  public static String version() throws IOException, InterruptedException {
    return succeeded(run(List.of("g++", "--version"), 60));
  }

  /**
   * Compiles a source file; fails the test on errors.
   *
   * @param options options besides file names
   */
  public static void compile(Path source, Path target, String... options)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add("g++");
    command.addAll(List.of(options));
    command.addAll(List.of("-o", target.toString(), source.toString()));
    succeeded(run(command, COMPILE_SECONDS));
  }

  /**
   * Writes a program that was compiled before. A child writes the file that runs: this JVM must not
   * have it open for writing, because another thread's child inherits the descriptor until it
   * executes its own program, and a program that is open for writing does not start.
   */
  public static void install(byte[] program, Path target) throws IOException, InterruptedException {
    Path bytes = Files.createTempFile("ep4j-program", ".bin");
    try {
      Files.write(bytes, program);
      succeeded(run(List.of("install", "-m", "700", bytes.toString(), target.toString()), 60));
    } finally {
      Files.delete(bytes);
    }
  }

  private static String succeeded(Outcome outcome) {
    if (outcome.status != 0) {
      throw new AssertionError(outcome.output);
    }
    return outcome.output;
  }

  /** Runs a program; kills it and fails the test after the limit. */
  public static Outcome run(List<String> command, int seconds)
      throws IOException, InterruptedException {
    Path output = Files.createTempFile("ep4j-output", ".txt");
    try {
      Process process =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(output.toFile())
              .start();
      boolean ended = process.waitFor(seconds, TimeUnit.SECONDS);
      if (!ended) {
        process.destroyForcibly();
      }
      String text = Files.readString(output, StandardCharsets.UTF_8);
      if (!ended) {
        throw new AssertionError(
            "%s did not end within %d s:%n%s".formatted(String.join(" ", command), seconds, text));
      }
      return new Outcome(process.exitValue(), text);
    } finally {
      Files.delete(output);
    }
  }
}
