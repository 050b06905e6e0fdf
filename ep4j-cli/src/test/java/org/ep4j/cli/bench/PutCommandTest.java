package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cuda.driver.CudaDevice;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PutCommandTest {
  @Test
  void withoutAGpuItSaysWhatWasLookedFor() {
    assumeTrue(CudaDevice.count() == 0, "there is a GPU");
    CommandLineRun run = CommandLineRun.of("bench", "put");

    assertThat(run.code()).isEqualTo(ExitCodes.UNAVAILABLE);
    assertThat(run.err()).contains("CUDA driver").doesNotContain("\tat ");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--sizes 16,24 | --sizes 24: a size is a multiple of 16",
        "--sizes 0 | --sizes 0: a size is a multiple of 16",
        "--sizes 67108880 | --sizes 67108880: a size is a multiple of 16, at most 64 MiB",
        "--warps 12 | --warps 12: must be a multiple of 8, at most 512",
        "--warps 520 | --warps 520: must be a multiple of 8, at most 512",
        "--nodes 3 | --nodes is 3",
        "--wire tcp | declare them with --nodes",
        "--nodes 2 --wire tpc | tpc",
        "--json no/such/place/x.json | its directory does not exist",
      })
  void whatCannotBeIsRefusedWithOrWithoutAGpu(String options, String message) {
    List<String> words = new ArrayList<>(List.of("bench", "put"));
    words.addAll(List.of(options.split(" ")));
    CommandLineRun run = CommandLineRun.of(words.toArray(String[]::new));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(message);
  }

  @Test
  void putsAreVerifiedAndTimed() {
    assumeTrue(CudaDevice.count() > 0, "no GPU");
    CommandLineRun run =
        CommandLineRun.of(
            "bench",
            "put",
            "--threads",
            "--sizes",
            "16,4096",
            "--warps",
            "8",
            "--backend",
            "direct");

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("verified");
  }
}
