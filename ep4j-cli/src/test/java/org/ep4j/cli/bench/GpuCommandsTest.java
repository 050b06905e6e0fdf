package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cuda.driver.CudaDevice;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What the measurements that need a GPU say without one, and to options that cannot be. */
class GpuCommandsTest {
  @ParameterizedTest
  @ValueSource(strings = {"nvlink", "proxy", "put"})
  void withoutAGpuItSaysWhatWasLookedFor(String command) {
    assumeTrue(CudaDevice.count() == 0, "there is a GPU");
    CommandLineRun run = CommandLineRun.of("bench", command);

    assertThat(run.code()).isEqualTo(ExitCodes.UNAVAILABLE);
    assertThat(run.err()).contains("CUDA driver").doesNotContain("\tat ");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "nvlink --json no/such/place/x.json | its directory does not exist",
        "proxy --warps 12 | --warps 12: a multiple of 8",
        "proxy --commands 8191 | --commands 8191: at least 32 a warp",
        "proxy --rounds 99 | --rounds 99: at least 100",
        "proxy --batch 32,33 | --batch 33: 1 to 32",
        "proxy --threads 1,9 | --threads 9: 1 to 8",
        "proxy --threads 1,2 --cores 3 | --cores names 1 cores for 2 threads: name more",
        "proxy --json no/such/place/x.json | its directory does not exist",
        "put --sizes 16,24 | --sizes 24: a size is a multiple of 16",
        "put --sizes 0 | --sizes 0: a size is a multiple of 16",
        "put --sizes 67108880 | --sizes 67108880: a size is a multiple of 16, at most 64 MiB",
        "put --warps 12 | --warps 12: must be a multiple of 8, at most 512",
        "put --warps 520 | --warps 520: must be a multiple of 8, at most 512",
        "put --nodes 3 | --nodes is 3",
        "put --wire tcp | declare them with --nodes",
        "put --nodes 2 --wire tpc | --wire is tpc; it must be one of auto, ",
        "put --nodes 2 --wire tpc --join | --wire is tpc; it must be one of auto, ",
        "put --json no/such/place/x.json | its directory does not exist",
      })
  void whatCannotBeIsRefusedWithOrWithoutAGpu(String arguments, String message) {
    CommandLineRun run = CommandLineRun.of(("bench " + arguments).split(" ", -1));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(message);
  }
}
