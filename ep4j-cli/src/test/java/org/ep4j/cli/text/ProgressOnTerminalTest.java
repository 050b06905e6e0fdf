package org.ep4j.cli.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.ep4j.cli.launch.JavaCommand;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The progress line on a terminal that the program {@code script} makes. */
@Timeout(120)
class ProgressOnTerminalTest {
  private static final String ERASE = "\r\u001b[2K";

  @TempDir Path scratch;

  @Test
  void anInterruptLeavesNoHalfLine() throws Exception {
    Path terminal = Path.of("/usr/bin/script");
    assumeThat(terminal).as("package bsdutils or util-linux").isExecutable();
    List<String> endless =
        List.of("bench", "ht", "--threads", "--ranks", "2", "--device", "host", "--tokens", "20");
    List<String> many = List.of("--hidden", "256", "--iterations", "100000", "--warmup", "0");
    String bench =
        JavaCommand.again(
                List.of("-XX:TieredStopAtLevel=1"),
                Stream.concat(endless.stream(), many.stream()).toList())
            .stream()
            .map(argument -> "'" + argument + "'")
            .collect(Collectors.joining(" ", "exec env --default-signal=INT ", ""));
    Path output = scratch.resolve("out");
    Process process =
        new ProcessBuilder(terminal.toString(), "-q", "-c", bench, "/dev/null")
            .redirectInput(Path.of("/dev/null").toFile())
            .redirectErrorStream(true)
            .redirectOutput(output.toFile())
            .start();
    try {
      while (!read(output).contains(ERASE + "timing")) {
        assertThat(process.isAlive()).as(read(output)).isTrue();
        TimeUnit.MILLISECONDS.sleep(20);
      }
      List<ProcessHandle> java =
          process
              .descendants()
              .filter(child -> child.info().command().orElse("").endsWith("java"))
              .toList();
      assertThat(java).hasSize(1);
      new ProcessBuilder("kill", "-INT", String.valueOf(java.getFirst().pid())).start().waitFor();
      assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    } finally {
      process.descendants().forEach(ProcessHandle::destroyForcibly);
      process.destroyForcibly();
    }
    assertThat(read(output)).endsWith(ERASE);
  }

  private static String read(Path output) throws IOException {
    return Files.readString(output, StandardCharsets.UTF_8);
  }
}
