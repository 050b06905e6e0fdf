package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cuda.driver.CudaDevice;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Errors of the GPU measurements without a GPU, and for wrong options. */
class GpuCommandsTest {
  @ParameterizedTest
  @ValueSource(strings = {"nvlink", "proxy", "put"})
  void withoutAGpuTheMissingDriverIsNamed(String command) {
    assumeTrue(CudaDevice.count() == 0, "there is a GPU");
    CommandLineRun run = CommandLineRun.of("bench", command);

    assertThat(run.code()).isEqualTo(ExitCodes.UNAVAILABLE);
    assertThat(run.err()).contains("CUDA driver").doesNotContain("\tat ");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "nvlink --json no/such/place/x.json | EP4J-1907: --json ",
        "proxy --warps 12 | EP4J-1900: --warps = 12; it must be a multiple of 8",
        "proxy --commands 8191 | EP4J-1900: --commands = 8191; it must be at least 32",
        "proxy --rounds 99 | EP4J-1900: --rounds = 99; it must be at least 100",
        "proxy --batch 32,33 | EP4J-1900: --batch = 33; it must be 1..32",
        "proxy --threads 1,9 | EP4J-1900: --threads = 9; it must be 1..8",
        "proxy --threads 1,2 --cores 3 | EP4J-1904: --cores names 1 cores for 2 threads",
        "proxy --json no/such/place/x.json | EP4J-1907: --json ",
        "put --sizes 16,24 | EP4J-1900: --sizes = 24; it must be multiples of 16",
        "put --sizes 0 | EP4J-1900: --sizes = 0; it must be multiples of 16",
        "put --sizes 67108880 | EP4J-1900: --sizes = 67108880; it must be multiples of 16, at most"
            + " 64 MiB",
        "put --warps 12 | EP4J-1900: --warps = 12; it must be a multiple of 8, at most 512",
        "put --warps 520 | EP4J-1900: --warps = 520; it must be a multiple of 8, at most 512",
        "put --nodes 3 | EP4J-1900: --nodes = 3; it must be 1..2, the ranks",
        "put --wire tcp | EP4J-1905: --wire tcp",
        "put --nodes 2 --wire tpc | EP4J-1906: --wire = tpc; it must be one of auto, ",
        "put --nodes 2 --wire tpc --join | EP4J-1906: --wire = tpc; it must be one of auto, ",
        "put --json no/such/place/x.json | EP4J-1907: --json ",
      })
  void wrongOptionsAreRefusedWithOrWithoutAGpu(String arguments, String message) {
    CommandLineRun run = CommandLineRun.of(("bench " + arguments).split(" ", -1));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(message);
  }
}
