package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.conformance.world.HostCompiler;

/** Reads values from the headers of CUDA with a C++ compiler. */
final class HeaderProgram {
  private static final List<String> HOMES = List.of("/usr/local/cuda/include", "/usr/include");

  private HeaderProgram() {}

  /**
   * Compiles and runs a program; skips the test without a compiler or without the header.
   *
   * @param body statements of main, which print lines of a name, a blank and a value
   */
  static Map<String, String> run(String header, String prelude, String body, Path directory)
      throws IOException, InterruptedException {
    String include = includeDirectory(header);
    HostCompiler.require("to ask about " + header);
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
    HostCompiler.compile(source, program, "-std=c++17", "-w", "-I", include);
    HostCompiler.Outcome outcome = HostCompiler.run(List.of(program.toString()), 60);
    assertThat(outcome.status()).as(outcome.output()).isZero();
    Map<String, String> answers = new LinkedHashMap<>();
    for (String line : outcome.output().lines().toList()) {
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
}
