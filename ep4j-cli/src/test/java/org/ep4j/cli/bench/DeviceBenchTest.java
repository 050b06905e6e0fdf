package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cuda.driver.CudaDevice;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class DeviceBenchTest {
  @TempDir Path scratch;

  @BeforeEach
  void needsAGpu() {
    assumeTrue(CudaDevice.count() > 0, "no GPU");
  }

  @ParameterizedTest
  @CsvSource({
    "exact, flat",
    "exact, expert-major",
    "static, flat",
    "static, expert-major",
    "cached, flat",
    "cached, expert-major",
    "graph, flat",
    "graph, expert-major"
  })
  void everyModeIsVerifiedAndTimed(String mode, String layout) throws Exception {
    CommandLineRun run = bench("--mode", mode, "--layout", layout, "--dtype", "bf16,fp8,nvfp4");

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("verified", mode + "\n", "nvfp4");
  }

  @Test
  void numbersOfSmsKeepTheirOrder() throws Exception {
    Path file = scratch.resolve("bench.json");
    CommandLineRun run = bench("--sms", "2,5", "--dtype", "bf16", "--json", file.toString());

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(Files.readString(file))
        .contains("\"sms\" : 2", "\"sms\" : 5", "host_median_us", "kernel_median_us", "\"gpus\"");
  }

  @ParameterizedTest
  @ValueSource(strings = {"--hook", "--partial", "--logfmt", "--zero-copy", "--rank-major"})
  void everyLowLatencyVariantIsVerifiedAndTimed(String mode) throws Exception {
    Path file = scratch.resolve("bench.json");
    CommandLineRun run = bench("ll", mode, "--dtype", "bf16,fp8,nvfp4", "--json", file.toString());

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("verified", "ll_pair nvfp4", "graph");
    assertThat(Files.readString(file)).contains("p999_us", "\"as\" : \"calls\"");
  }

  /** Ranks print to the standard output of their process. */
  private CommandLineRun bench(String... more) throws Exception {
    boolean latency = more[0].equals("ll");
    List<String> arguments =
        new ArrayList<>(
            List.of(
                "bench",
                latency ? "ll" : "ht",
                "--device",
                "cuda",
                "--ranks",
                "2",
                "--tokens",
                "96",
                "--hidden",
                "512",
                "--experts",
                "16",
                "--topk",
                "4",
                "--iterations",
                "3",
                "--warmup",
                "1"));
    arguments.addAll(List.of(more).subList(latency ? 1 : 0, more.length));
    return CliProcess.run(scratch, arguments.toArray(String[]::new));
  }
}
