package org.ep4j.c;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import org.ep4j.c.CProgram.Ended;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The example program in C is short, compiles without warnings, and prints the sums. */
class ExampleTest {
  private static final int MAX_LINES = 60;

  @Test
  void exampleComputesTheLayer(@TempDir Path directory) throws Exception {
    Path source = Path.of("../ep4j-examples/src/main/c/moe_layer.c");
    Assumptions.assumeTrue(Files.exists(source), "no sources of the examples here");
    assertThat(Files.readAllLines(source)).hasSizeLessThanOrEqualTo(MAX_LINES);
    Files.copy(source, directory.resolve("moe_layer.c"));
    CProgram program = CProgram.compile(directory, "moe_layer.c");
    Ended ended = program.run(program.environment());
    assertThat(ended.status()).as(ended.output()).isZero();
    assertThat(ended.output()).contains("token 0: 3.5\ntoken 1: 7\ntoken 2: 10.5\ntoken 3: 14\n");
  }
}
