package org.ep4j.rdma.ucx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Evaluates expressions on the headers of UCX with a C++ compiler. */
final class HeaderProgram {
  private static final Path HEADER = Path.of("/usr/include/ucp/api/ucp.h");

  private HeaderProgram() {}

  /**
   * Compiles and runs a program; skips the test without a compiler or the header.
   *
   * @param body statements of main, which print lines with a name, a space and a value
   */
  static Map<String, String> run(String prelude, String body, Path directory)
      throws IOException, InterruptedException {
    assumeTrue(Files.isRegularFile(HEADER), "no " + HEADER);
    assumeTrue(onPath("g++"), "no g++ to compile " + HEADER);
    Path source = directory.resolve("ask.cc");
    Path program = directory.resolve("ask");
    Files.writeString(
        source,
        "#include <cstddef>\n#include <cstdio>\n#include <ucp/api/ucp.h>\n"
            + prelude
            + "\nint main() {\n"
            + body
            + "\n}\n");
    execute(List.of("g++", "-std=c++17", "-w", "-o", program.toString(), source.toString()));
    Map<String, String> answers = new LinkedHashMap<>();
    for (String line : execute(List.of(program.toString()))) {
      int blank = line.indexOf(' ');
      answers.put(line.substring(0, blank), line.substring(blank + 1).strip());
    }
    return answers;
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
