package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code benchmarks/gpu-tables.sh} without a GPU. */
class GpuTablesTest {
  private static final Path SCRIPT = Path.of("..", "benchmarks", "gpu-tables.sh");

  @TempDir private Path output;

  @BeforeEach
  void requireTheScript() {
    assumeThat(SCRIPT).as("missing in a bundle").exists();
  }

  @ParameterizedTest
  @ValueSource(strings = {"1", "4"})
  void itsCommandsNeedOnlyAGpu(String gpus) throws Exception {
    assumeThat(CudaDriver.find().found()).as("this machine has a GPU").isFalse();
    List<String> commands =
        said(0, "--dry-run", "--gpus", gpus, "--output", output.toString()).lines().toList();

    assertThat(commands).hasSizeGreaterThan(20);
    for (String command : commands) {
      CommandLineRun run = CommandLineRun.of(command.split(" ", -1));
      assertThat(run.code()).as(command + ": " + run.err()).isEqualTo(ExitCodes.UNAVAILABLE);
    }
  }

  @Test
  void tablesAreChosenByName() throws Exception {
    assertThat(said(0, "--dry-run", "--gpus", "2", "ll-1", "proxy").lines())
        .hasSize(2)
        .anyMatch(line -> line.startsWith("bench ll") && line.contains("--tokens 1 "))
        .contains("bench proxy --json gpu-tables/proxy.json");
  }

  @Test
  void unknownTablesAreReportedBeforeAnyMeasurement() throws Exception {
    assertThat(said(ExitCodes.USAGE, "--gpus", "2", "proxy", "nope"))
        .startsWith("gpu-tables.sh: no table nope: use one of nvlink ht ");
  }

  private static String said(int code, String... arguments) throws Exception {
    List<String> command = new ArrayList<>(List.of(SCRIPT.toString()));
    command.addAll(List.of(arguments));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(process.waitFor()).as(said).isEqualTo(code);
    return said;
  }
}
