package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Asks a C++ compiler what the headers of CUDA say. */
final class HeaderProgram {
  private static final List<String> HOMES = List.of("/usr/local/cuda/include", "/usr/include");

  private HeaderProgram() {}

  /**
   * Compiles and runs a program; skips the test where there is no compiler or no such header.
   *
   * @param body statements of main, which print lines of a name, a blank and a value
   */
  static Map<String, String> run(String header, String prelude, String body, Path directory)
      throws IOException, InterruptedException {
    String include = includeDirectory(header);
    assumeTrue(onPath("g++"), "no g++ to ask about " + header);
    Path source = directory.resolve("ask.cc");
    Path program = directory.resolve("ask");
    Files.writeString(
        source,
        "#include <cstddef>\n#include <cstdio>\n#include <"
            + header
            + ">\n"
            + prelude
            + "\nint main() {\n"
            + body
            + "\n}\n");
    execute(
        List.of(
            "g++", "-std=c++17", "-w", "-I", include, "-o", program.toString(), source.toString()));
    Map<String, String> answers = new LinkedHashMap<>();
    for (String line : execute(List.of(program.toString()))) {
      int blank = line.indexOf(' ');
      answers.put(line.substring(0, blank), line.substring(blank + 1).strip());
    }
    return answers;
  }

  private static String includeDirectory(String header) {
    List<String> places = new ArrayList<>();
    String home = System.getenv("CUDA_HOME");
    if (home != null) {
      places.add(home + "/include");
    }
    places.addAll(HOMES);
    for (String place : places) {
      if (Files.isRegularFile(Path.of(place, header))) {
        return place;
      }
    }
    assumeTrue(false, "no " + header + " in " + places);
    throw new AssertionError("not reached");
  }

  private static boolean onPath(String program) {
    for (String directory : System.getenv("PATH").split(":", -1)) {
      if (Files.isExecutable(Path.of(directory, program))) {
        return true;
      }
    }
    return false;
  }

  private static List<String> execute(List<String> command)
      throws IOException, InterruptedException {
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    List<String> lines;
    try (var reader = process.inputReader(StandardCharsets.UTF_8)) {
      lines = reader.lines().toList();
    }
    assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).as(String.join("\n", lines)).isZero();
    return lines;
  }
}
