package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** The C++ compiler of this machine, and what is made with it. */
public final class HostCompiler {
  private static final int COMPILE_SECONDS = 120;

  private HostCompiler() {}

  /** How a program ended, and what it printed. */
  public record Outcome(int status, String output) {}

  /**
   * Skips the test where there is no compiler.
   *
   * @param purpose what it is for, for example {@code to ask about cuda.h}
   */
  public static void require(String purpose) {
    for (String place : System.getenv("PATH").split(":", -1)) {
      if (Files.isExecutable(Path.of(place, "g++"))) {
        return;
      }
    }
    assumeTrue(false, "no g++ " + purpose);
  }

  /** What the compiler says of itself; programs of compilers that say the same are the same. */
  public static String version() throws IOException, InterruptedException {
    Outcome outcome = run(List.of("g++", "--version"), 60);
    assertThat(outcome.status).as(outcome.output).isZero();
    return outcome.output;
  }

  /**
   * Compiles a source file, and fails the test if that fails.
   *
   * @param options beside the names of the files
   */
  public static void compile(Path source, Path target, String... options)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add("g++");
    command.addAll(List.of(options));
    command.addAll(List.of("-o", target.toString(), source.toString()));
    Outcome outcome = run(command, COMPILE_SECONDS);
    assertThat(outcome.status).as(outcome.output).isZero();
  }

  /** Runs a program; ends it, and fails the test, if that takes too long. */
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
      assertThat(ended).as("%s in %d s:%n%s", String.join(" ", command), seconds, text).isTrue();
      return new Outcome(process.exitValue(), text);
    } finally {
      Files.delete(output);
    }
  }
}
