package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * {@code benchmarks/compare-mpi.sh} up to its first measurement, on machines that a name stands
 * for.
 */
class CompareMpiTest {
  private static final Path SCRIPT = Path.of("..", "benchmarks", "compare-mpi.sh");

  @TempDir private Path programs;

  @BeforeEach
  void requireTheScript() {
    assumeThat(SCRIPT).as("missing in a bundle").exists();
  }

  @ParameterizedTest
  @CsvSource({
    "aarch64, 256, it must be 128",
    "aarch64, 512, it must be 128",
    "x86_64, 64, 'it must be 512, 256 or 128'",
    "riscv64, 128, this machine is riscv64"
  })
  void vectorsThatTheMachineLacksAreRefused(String machine, String bits, String said)
      throws Exception {
    assertThat(output(machine, bits)).startsWith("compare-mpi: ").contains(said);
  }

  /** The compiler is the first program to run. */
  @Test
  void noMachineGetsTheFlagsOfAnother() throws Exception {
    assertThat(output("aarch64", "128")).contains("make:").doesNotContain("-mno-avx");
    assertThat(output("x86_64", "256")).contains("make:").contains("-mno-avx512f");
  }

  private String output(String machine, String bits) throws Exception {
    program("uname", "echo " + machine);
    for (String needed : new String[] {"cc", "mpirun", "mpicc"}) {
      program(needed, "exit 1");
    }
    program("make", "echo make: \"$@\"; case \"$*\" in *clean*) ;; *) exit 1 ;; esac");
    ProcessBuilder script = new ProcessBuilder(SCRIPT.toString(), "--vectors", bits);
    script.environment().merge("PATH", programs.toString(), (path, first) -> first + ":" + path);
    Process process = script.redirectErrorStream(true).start();
    String all = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(process.waitFor()).isNotZero();
    return all;
  }

  private void program(String name, String body) throws Exception {
    Path file = programs.resolve(name);
    Files.writeString(file, "#!/bin/sh\n" + body + "\n");
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
  }
}
