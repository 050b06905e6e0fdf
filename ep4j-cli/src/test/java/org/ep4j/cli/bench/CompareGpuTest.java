package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.cli.ExitCodes;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code benchmarks/compare-gpu.sh} with a program that measures nothing. */
class CompareGpuTest {
  private static final Path ROOT = Path.of("..");

  /** Writes a file for each system, and prints the names of those files. */
  private static final String PROGRAM =
      """
      import json, sys
      if sys.argv[1] == "measure":
          options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
          with open(options["--json"], "w") as file:
              json.dump(options["--name"], file)
      else:
          print("measured:", ", ".join(json.load(open(file)) for file in sys.argv[2:]))
      """;

  @TempDir private Path scratch;

  @BeforeEach
  void makeAClone() throws Exception {
    assumeThat(ROOT.resolve("benchmarks/compare-gpu.sh")).as("missing in a bundle").exists();
    copy("benchmarks/compare-gpu.sh");
    copy("tools/common.sh");
    write("python/benchmarks/compare_exchange.py", PROGRAM);
    write("python/deep_ep/__init__.py", "");
  }

  private static void requireTime() throws Exception {
    assumeThat(Boolean.getBoolean("ep4j.full"))
        .as("Python starts for each system, which takes seconds; -Dep4j.full=true runs this test")
        .isTrue();
    assumeThat(new ProcessBuilder("which", "python3").start().waitFor()).as("python3").isZero();
  }

  @Test
  void thePackagesOfPeersAreMeasured() throws Exception {
    requireTime();
    write("peer/deep_ep/__init__.py", "print('welcome')\nclass Buffer: pass\n");
    write("both/deep_ep/__init__.py", "class Buffer: pass\nclass HybridEPBuffer: pass\n");

    assertThat(said(ExitCodes.OK, "--peer", "A=peer", "--peer", "B=both"))
        .contains("measured: ep4j, ep4j as Hybrid-EP, A, B, B, Hybrid-EP, rows alone");
  }

  @Test
  void peersThatCannotBeImportedAreNamedAndTheOthersMeasured() throws Exception {
    requireTime();
    write("broken/deep_ep/__init__.py", "import no_such_module\n");
    write("old/deep_ep/__init__.py", "");
    write("good/deep_ep/__init__.py", "class HybridEPBuffer: pass\n");

    assertThat(
            said(
                ExitCodes.FAILED,
                "--peer",
                "Broken=broken",
                "--peer",
                "Old=old",
                "--peer",
                "Good=good"))
        .contains("No module named 'no_such_module'")
        .contains("has neither Buffer nor HybridEPBuffer")
        .contains("measured: ep4j, ep4j as Hybrid-EP, Good, Hybrid-EP, rows alone")
        .contains("failed: Broken", "failed: Old")
        .doesNotContain("failed: Good");
  }

  @Test
  void anInstalledPackageIsNotMeasuredUnderTheNameOfAPeer() throws Exception {
    requireTime();
    write("installed/deep_ep/__init__.py", "class Buffer: pass\n");
    // A package that is installed: later on the path than the directory of the peer.
    write(
        "empty/sitecustomize.py",
        "import sys\nsys.path.append('%s')\n".formatted(scratch.resolve("installed")));

    assertThat(said(ExitCodes.FAILED, "--peer", "A=empty"))
        .contains("has no package deep_ep; Python finds ", "failed: A")
        .contains("measured: ep4j, ep4j as Hybrid-EP, rows alone");
  }

  @Test
  void aPeerWithoutADirectoryIsRefusedBeforeAnyMeasurement() throws Exception {
    assertThat(said(ExitCodes.USAGE, "--peer", "A=none"))
        .contains("--peer A=none: there is no directory none")
        .doesNotContain("measured");
  }

  private void copy(String file) throws IOException {
    write(file, Files.readString(ROOT.resolve(file)));
  }

  private void write(String file, String text) throws IOException {
    Path path = scratch.resolve(file);
    Files.createDirectories(path.getParent());
    Files.writeString(path, text);
  }

  private String said(int code, String... arguments) throws Exception {
    List<String> command = new ArrayList<>(List.of("bash", "benchmarks/compare-gpu.sh"));
    command.addAll(List.of(arguments));
    Process process =
        new ProcessBuilder(command).directory(scratch.toFile()).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(process.waitFor()).as(output).isEqualTo(code);
    return output;
  }
}
