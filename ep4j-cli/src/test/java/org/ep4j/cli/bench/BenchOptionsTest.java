package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.util.List;
import org.ep4j.Layout;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.verify.RoutingKind;
import org.ep4j.wire.WireProvider;
import org.ep4j.wire.Wires;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

class BenchOptionsTest {
  @Test
  void theDefaultsAreTheShapeEverybodyQuotes() {
    BenchSettings settings = parse();

    assertThat(settings.kind()).isEqualTo(BenchSettings.Kind.ALL);
    assertThat(settings.tokens()).isEqualTo(4096);
    assertThat(settings.lowLatencyTokens()).isEqualTo(128);
    assertThat(settings.hidden()).isEqualTo(7168);
    assertThat(settings.topk()).isEqualTo(8);
    assertThat(settings.experts()).isEqualTo(256);
    assertThat(settings.payload()).isEqualTo(Payload.BF16);
    assertThat(settings.layout()).isEqualTo(Layout.FLAT);
    assertThat(settings.staticSizes()).isFalse();
  }

  @Test
  void namesOfTheReferenceAreAliases() {
    BenchSettings ours =
        parse("ht", "--ranks", "2", "--tokens", "64", "--topk", "4", "--experts", "32");
    BenchSettings theirs =
        parse(
            "ht",
            "--num-processes",
            "2",
            "--num-tokens",
            "64",
            "--num-topk",
            "4",
            "--num-experts",
            "32");

    assertThat(theirs).isEqualTo(ours);
    assertThat(theirs.tokens()).isEqualTo(64);
  }

  @Test
  void severalBackendsAreTakenInOrder() {
    assertThat(parse("ht").backends()).containsExactly("auto");
    BenchSettings settings = parse("ht", "--backend", "direct,NCCL,direct");
    assertThat(settings.backends()).containsExactly("direct", "nccl", "direct");
    assertThat(settings.on("nccl").highThroughputConfig(2).backend()).isEqualTo("nccl");
    assertThat(settings.small().backends()).isEqualTo(settings.backends());
  }

  @Test
  void whatRunsBesideIsRefusedWithoutGpus() {
    assertThat(parse("ht", "--device", "cuda", "--with-nccl-traffic").nccl().background()).isTrue();
    CommandLineRun run =
        CommandLineRun.of("bench", "ht", "--device", "host", "--with-nccl-traffic");
    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("--with-nccl-traffic is for GPUs");
  }

  @Test
  void aBackendWithoutGpusIsRefused() {
    CommandLineRun run = CommandLineRun.of("bench", "ht", "--device", "host", "--backend", "nccl");
    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("--backend is between GPUs");
  }

  @Test
  void everyChoiceIsUnderstood() {
    BenchSettings settings =
        parse(
            "ALL",
            "--dtype",
            "fp8,nvfp4",
            "--layout",
            "expert-major",
            "--mode",
            "static",
            "--routing",
            "zipf",
            "--iterations",
            "7",
            "--warmup",
            "0",
            "--seed",
            "9",
            "--tokens",
            "17",
            "--max-tokens",
            "32",
            "--hook",
            "--zero-copy");

    assertThat(settings.kind()).isEqualTo(BenchSettings.Kind.ALL);
    assertThat(settings.payloads()).isEqualTo(List.of(Payload.FP8, Payload.NVFP4));
    assertThat(settings.layout()).isEqualTo(Layout.EXPERT_MAJOR);
    assertThat(settings.staticSizes()).isTrue();
    assertThat(settings.routing()).isEqualTo(RoutingKind.ZIPF);
    assertThat(settings.plan()).isEqualTo(new IterationPlan(7, 0, 4));
    assertThat(settings.seed()).isEqualTo(9);
    assertThat(settings.lowLatencyTokens()).isEqualTo(17);
    assertThat(settings.maxTokens()).isEqualTo(32);
    assertThat(settings.options())
        .isEqualTo(new BenchSettings.LowLatencyVariant(false, true, true, false, false));
  }

  @ParameterizedTest
  @ValueSource(strings = {"cuda", "host"})
  void bothBuffersAreOfTheEngineThatWasAskedFor(String engine) {
    BenchSettings settings = parse("all", "--device", engine);
    assertThat(settings.highThroughputConfig(2).engine()).isEqualTo(engine);
    assertThat(settings.lowLatencyConfig(2).engine()).isEqualTo(engine);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--ranks 0            | --ranks is 0; it must be 1..1024",
        "--tokens -1          | --tokens is -1",
        "--iterations 0       | --iterations is 0",
        "--layout sideways    | --layout is sideways; it must be flat, expert-major",
        "--mode loose         | --mode is loose; it must be exact, static, cached, graph",
        "ht --device host --mode graph | --mode graph is for GPUs",
        "ht --device host --sms 1,2 | --sms takes one number on the host",
        "--sms -1             | --sms is -1",
        "--device gpu         | --device is gpu; it must be auto, host, cuda",
        "--dtype int3         | int3",
        "--routing random     | random",
        "--threads --join     | mutually exclusive",
        "--hidden 100         | --hidden is 100; it must be a multiple of 8 for bf16 rows",
        "--topk 300           | topK = 300",
        "ll --dtype fp16      | --dtype fp16 is for ht only",
        "ll --logfmt --zero-copy | exclude each other",
        "ll --rank-major --partial | --rank-major excludes",
        "ll --tokens 8 --max-tokens 4 | --max-tokens is 4; it must be 8..",
        "--json no/such/place/x.json | its directory does not exist",
        "ht --device host --ranks 4 --nodes 3 | 4 ranks of 2 a node make 2 nodes, but --nodes is 3",
        "ht --device host --nodes 0 | --nodes is 0",
        "ht --device host --ranks-per-node -1 | --ranks-per-node is -1",
        "ht --device host --wire tcp | --wire tcp is between nodes",
        "ll --nodes 2 --disable-nvlink | leave out --nodes",
        "ll --disable-nvlink --wire pigeon | --wire is pigeon; it must be one of auto, ",
        "ht --device host --nodes 2 --wire staged | --wire is staged; it must be one of auto, ",
        "ht --join            | no variable tells the rank (EP4J_RANK, ",
        "ht --join --device host --nodes 2 --wire pigeon | --wire is pigeon; it must be one of"
            + " auto, ",
        "wire --join --wire pigeon | --wire is pigeon; it must be one of auto, ",
        "ll --layout expert-major | --layout is for ht only",
        "ll --mode static     | --mode is for ht only",
        "ht --logfmt          | --logfmt is for ll only: leave it out, or measure ll or all",
        "ht --hook --tokens 8 | --hook is for ll only",
        "ht --max-tokens 8    | --max-tokens is for ll only",
        "--tokens many        | '--tokens'",
        "--tokens=many        | '--tokens'",
        "--num-tokens many    | '--num-tokens'",
        "--json .             | --json .: is a directory: name a file in it",
        "wires                | no 'wires' to measure; it must be ht, ll, all, nvlink, proxy, put"
            + " or wire",
        "--frobnicate         | --frobnicate"
      })
  void wrongUsageIsRefusedBeforeAnythingStarts(String arguments, String message) {
    CommandLineRun run = CommandLineRun.of(("bench " + arguments).split(" ", -1));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(message).doesNotContain("\tat ");
  }

  @Test
  void theUsageLineNamesTheCommandsThereAre() {
    CommandLine bench = new CommandLine(new BenchCommand());

    assertThat(bench.getHelp().synopsis(0))
        .contains("[" + String.join("|", bench.getSubcommands().keySet()) + "]");
  }

  @Test
  void anEngineThatIsNotHereIsSaidSo() {
    CommandLineRun run = CommandLineRun.of("bench", "--device", "cuda", "--ranks", "2");

    assertThat(run.code()).isEqualTo(ExitCodes.UNAVAILABLE);
    assertThat(run.err()).contains("engine 'cuda'").contains("host");
  }

  @Test
  void aWireWhoseLibraryIsNotHereIsSaidSoOnce() {
    String missing =
        Wires.providers().stream()
            .filter(wire -> !wire.unavailableHere().isEmpty())
            .map(WireProvider::name)
            .findFirst()
            .orElse("");
    assumeThat(missing).as("a wire that this machine lacks").isNotEmpty();
    for (String command : List.of("ht --device host --nodes 2", "wire")) {
      String[] arguments = ("bench " + command + " --wire " + missing).split(" ", -1);
      CommandLineRun run = CommandLineRun.of(arguments);

      assertThat(run.code()).isEqualTo(ExitCodes.UNAVAILABLE);
      assertThat(run.err()).contains("wire '" + missing + "' cannot be used here: ");
      assertThat(run.err().lines()).hasSize(1);
    }
  }

  @Test
  void whatDoesNotFitIsRefusedBeforeTheKernelKillsARank() {
    CommandLineRun run = CommandLineRun.of("bench", "ht", "--ranks", "8", "--tokens", "10000000");

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.err()).contains("of memory").contains("fewer --ranks");
  }

  private static BenchSettings parse(String... arguments) {
    BenchCommand command = new BenchCommand();
    new CommandLine(command).setCaseInsensitiveEnumValuesAllowed(true).parseArgs(arguments);
    return command.settings();
  }
}
