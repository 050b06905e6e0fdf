package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class MoeCommandTest {
  private static final String SMALL =
      "--ranks 2 --tokens 6 --hidden 40 --intermediate 24 --experts 8 --topk 2 --iterations 2"
          + " --warmup 1";

  @TempDir Path scratch;

  private static CommandLineRun bench(String arguments) {
    return CommandLineRun.of(("bench moe " + arguments).split(" ", -1));
  }

  @Test
  void theLayerIsVerifiedAndItsPartsAreTimed() throws Exception {
    Path file = scratch.resolve("moe.json");
    CommandLineRun run = bench("--threads " + SMALL + " --json " + file);

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .contains("2 ranks, 6 tokens each, hidden 40, intermediate 24, top 2 of 8 experts")
        .contains("route", "dispatch", "experts", "combine", "layer", "tokens/s")
        .contains("verified: 3 tokens of each rank");
    assertThat(Files.readString(file))
        .contains(
            "\"device\" : \"host\"",
            "\"iterations\" : 2",
            "\"experts_us\"",
            "\"layer_us\"",
            "\"experts_gflops\"");
  }

  @Test
  void callsAndReplaysOfDecodingAreTimed() throws Exception {
    Path file = scratch.resolve("decode.json");
    CommandLineRun run =
        bench(
            "--threads --decode "
                + SMALL.replace("--hidden 40", "--hidden 128")
                + " --json "
                + file);

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("decoding", "call, on the host", "replay, on the host");
    assertThat(Files.readString(file))
        .contains("\"decode\" : true", "\"call_us\"", "\"replay_us\"");
  }

  @Test
  void aSharedExpertIsTimedBesideTheLayerWithoutIt() throws Exception {
    Path file = scratch.resolve("shared.json");
    CommandLineRun run = bench("--threads --shared 16 " + SMALL + " --json " + file);

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .contains("shared", "layer without it", "the shared expert takes", "% hidden")
        .contains("verified: 3 tokens of each rank");
    assertThat(Files.readString(file))
        .contains("\"shared\" : 16", "\"shared_us\"", "\"layer_without_shared_us\"");
  }

  @Test
  void tokensAndWeightsAreOfFp8() throws Exception {
    Path file = scratch.resolve("fp8.json");
    CommandLineRun run =
        bench(
            "--threads --fp8 " + SMALL.replace("--hidden 40", "--hidden 128") + " --json " + file);

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("tokens and weights in FP8", "verified: 3 tokens of each rank");
    assertThat(Files.readString(file)).contains("\"fp8\" : true");

    run = bench("--threads --fp8 " + SMALL);
    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1063: hidden = 40; it must be a multiple of 128");
  }

  @Test
  void numbersOutOfRangeAreNamed() {
    CommandLineRun run = bench("--threads --ranks 9 --experts 8 --topk 2");
    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("--ranks = 9; it must be 1 to the number of experts");

    run = bench("--threads --device gpu");
    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("--device = gpu; it must be host or cuda");

    run = bench("--threads --experts 0");
    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1900: --experts = 0; it must be at least 1");

    run = bench("--threads --ranks 1 --experts 8 --topk 9");
    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1900: --topk = 9; it must be 1..8");
  }

  /** The limits of {@code bench ht}. */
  @ParameterizedTest
  @CsvSource({
    "--iterations, 0, 1..100000",
    "--iterations, -1, 1..100000",
    "--iterations, 100001, 1..100000",
    "--warmup, -1, 0..100000",
    "--warmup, 100001, 0..100000"
  })
  void iterationsOutOfRangeAreRefused(String option, String value, String limit) {
    for (String kind : List.of("moe", "ht")) {
      CommandLineRun run =
          CommandLineRun.of("bench", kind, "--threads", "--device", "host", option, value);

      assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
      assertThat(run.err())
          .contains("EP4J-1900: %s = %s; it must be %s".formatted(option, value, limit));
    }
  }
}
