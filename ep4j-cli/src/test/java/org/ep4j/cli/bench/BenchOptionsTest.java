package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.util.List;
import org.ep4j.CombineOrder;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.ErrorCode;
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
  void theDefaultsAreTheUsualBenchmarkShape() {
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
  void optionNamesOfDeepEpAreAliases() {
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
    assertThat(parse("ll", "--use-logfmt")).isEqualTo(parse("ll", "--logfmt"));
    assertThat(parse("ll", "--use-logfmt").options().logFmt()).isTrue();
  }

  @ParameterizedTest
  @CsvSource({
    "ht --pressure-test 60, 60",
    "ht --pressure-test, 60",
    "ht --pressure-test-mode 1, 60",
    "ht --pressure-test-mode 1 --pressure-test 5, 5",
    "ht --pressure-test-mode 0, 0",
    "--test-ll-compatibility, 60",
    "all --test-ll-compatibility --pressure-test-mode 1, 60",
    "all --test-ll-compatibility --pressure-test 5, 5",
    "ll --shrink-test --pressure-test-mode 0, 0",
    "ll --allow-mnnvl, 0",
    "ht, 0"
  })
  void flagsOfDeepEpsTestsAskForAPressureTest(String arguments, int seconds) {
    BenchTests tests = command(arguments.split(" ", -1)).tests();

    assertThat(tests.pressureSeconds()).isEqualTo(seconds);
    assertThat(tests.shrink()).isEqualTo(arguments.contains("--shrink-test"));
  }

  @Test
  void severalBackendsKeepTheirOrder() {
    assertThat(parse("ht").backends()).containsExactly("auto");
    BenchSettings settings = parse("ht", "--device", "cuda", "--backend", "direct,NCCL,direct");
    assertThat(settings.backends()).containsExactly("direct", "nccl", "direct");
    assertThat(settings.on("nccl").highThroughputConfig(2).backend()).isEqualTo("nccl");
    assertThat(settings.small().backends()).isEqualTo(settings.backends());
  }

  @Test
  void backgroundTrafficIsRefusedWithoutGpus() {
    assertThat(parse("ht", "--device", "cuda", "--with-nccl-traffic").nccl().background()).isTrue();
    CommandLineRun run =
        CommandLineRun.of("bench", "ht", "--device", "host", "--with-nccl-traffic");
    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1905: --with-nccl-traffic");
  }

  @Test
  void aBackendWithoutGpusIsRefused() {
    CommandLineRun run = CommandLineRun.of("bench", "ht", "--device", "host", "--backend", "nccl");
    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1904: --backend");
    if (CudaDevice.count() == 0) {
      assertThat(CommandLineRun.of("bench", "ht", "--backend", "nccl").err())
          .contains("EP4J-1905: --backend needs GPUs");
    }
  }

  @Test
  void everyOptionIsParsed() {
    BenchSettings settings =
        parse(
            "ALL",
            "--dtype",
            "fp8,nvfp4",
            "--layout",
            "expert-major",
            "--apply-weights",
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
    assertThat(settings.applyWeights()).isTrue();
    assertThat(settings.staticSizes()).isTrue();
    assertThat(settings.routing()).isEqualTo(RoutingKind.ZIPF);
    assertThat(settings.plan()).isEqualTo(new IterationPlan(7, 0, 4));
    assertThat(settings.seed()).isEqualTo(9);
    assertThat(settings.lowLatencyTokens()).isEqualTo(17);
    assertThat(settings.maxTokens()).isEqualTo(32);
    assertThat(settings.options())
        .isEqualTo(new BenchSettings.LowLatencyVariant(false, true, true, false, false));
  }

  @Test
  void theOrderOfLowLatencyIsThatOfChoicesOrOfExperts() {
    assertThat(LowLatencyRound.combining(parse("ll")).build().order())
        .isEqualTo(CombineOrder.CHOICE);
    assertThat(LowLatencyRound.combining(parse("ll", "--order", "rank")).build().order())
        .isEqualTo(CombineOrder.CHOICE);
    for (String engine : List.of("host", "cuda")) {
      BenchSettings settings = parse("ll", "--device", engine, "--order", "expert");
      assertThat(LowLatencyRound.combining(settings).build().order())
          .isEqualTo(CombineOrder.EXPERT);
    }
    BenchSettings both = parse("all", "--order", "expert", "--layout", "expert-major");
    assertThat(both.order()).isEqualTo(CombineOrder.EXPERT);
    assertThat(LowLatencyRound.combining(both).build().order()).isEqualTo(CombineOrder.EXPERT);
  }

  @ParameterizedTest
  @ValueSource(strings = {"cuda", "host"})
  void bothBuffersHaveTheRequestedEngine(String engine) {
    BenchSettings settings = parse("all", "--device", engine);
    assertThat(settings.highThroughputConfig(2).engine()).isEqualTo(engine);
    assertThat(settings.lowLatencyConfig(2).engine()).isEqualTo(engine);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--ranks 0            | EP4J-1900: --ranks = 0; it must be 1..1024",
        "--tokens -1          | EP4J-1900: --tokens = -1",
        "--iterations 0       | EP4J-1900: --iterations = 0",
        "--layout sideways    | EP4J-1900: --layout = sideways; it must be flat, expert-major",
        "--mode loose         | EP4J-1900: --mode = loose; it must be exact, static, cached, graph",
        "ht --device host --mode graph | EP4J-1905: --mode graph",
        "ht --device host --sms 1,2 | EP4J-1900: --sms = [1, 2]",
        "--sms -1             | EP4J-1900: --sms = -1",
        "--device gpu         | EP4J-1900: --device = gpu; it must be auto, host, cuda",
        "--dtype int3         | int3",
        "--routing random     | random",
        "--threads --join     | EP4J-1904: ",
        "--hidden 100         | EP4J-1900: --hidden = 100; it must be a multiple of 8 for bf16"
            + " rows",
        "--topk 300           | EP4J-1900: --topk = 300; it must be 1..64",
        "ht --topk 0          | EP4J-1900: --topk = 0; it must be 1..64",
        "ht --topk 8 --experts 4 | EP4J-1900: --topk = 8; it must be 1..4",
        "ht --experts 0       | EP4J-1900: --experts = 0; it must be at least 1",
        "ll --dtype fp16      | EP4J-1905: --dtype fp16",
        "ll --logfmt --zero-copy | EP4J-1904: --logfmt and --zero-copy",
        "ll --rank-major --partial | EP4J-1904: --rank-major",
        "ll --tokens 8 --max-tokens 4 | EP4J-1900: --max-tokens = 4; it must be 8..",
        "--json no/such/place/x.json | EP4J-1907: --json no/such/place/x.json",
        "ht --device host --ranks 4 --nodes 3 | EP4J-1904: 4 ranks, 2 per node, are 2 nodes, but"
            + " --nodes = 3",
        "ht --device host --nodes 0 | EP4J-1900: --nodes = 0",
        "ht --device host --ranks 1 --nodes 2 | EP4J-1900: --nodes = 2; it must be 1..1, the ranks",
        "ht --device host --ranks-per-node -1 | EP4J-1900: --ranks-per-node = -1",
        "ht --device host --wire tcp | EP4J-1905: --wire tcp",
        "ll --nodes 2 --disable-nvlink | EP4J-1904: --disable-nvlink",
        "ll --disable-nvlink --wire pigeon | EP4J-1906: --wire = pigeon; it must be one of auto, ",
        "ht --device host --nodes 2 --wire staged | EP4J-1906: --wire = staged; it must be one of"
            + " auto, ",
        "ht --join            | EP4J-1909: ",
        "ht --join --device host --nodes 2 --wire pigeon | EP4J-1906: --wire = pigeon; it must be"
            + " one of auto, ",
        "wire --join --wire pigeon | EP4J-1906: --wire = pigeon; it must be one of auto, ",
        "ll --layout expert-major | EP4J-1905: --layout is for ht",
        "ll --mode static     | EP4J-1905: --mode is for ht",
        "ll --apply-weights   | EP4J-1905: --apply-weights is for ht",
        "ht --apply-weights   | EP4J-1905: --apply-weights is for expert-major rows only",
        "ll --order expert --partial | EP4J-1904: --order expert excludes --partial",
        "ll --join --order expert --rank-major | EP4J-1904: --order expert excludes --partial",
        "ll --order choice    | EP4J-1900: --order = choice; it must be rank, expert",
        "--order expert       | EP4J-1905: --order expert is for expert-major rows only",
        "--order expert --layout expert-major --partial | EP4J-1904: --order expert excludes",
        "ht --order expert    | EP4J-1905: --order expert is for expert-major rows only",
        "ht --order choice    | EP4J-1900: --order",
        "ht --logfmt          | EP4J-1905: --logfmt is for ll",
        "ht --hook --tokens 8 | EP4J-1905: --hook is for ll",
        "ht --max-tokens 8    | EP4J-1905: --max-tokens is for ll",
        "--tokens many        | EP4J-1900: --tokens = many; it must be a whole number",
        "--tokens=many        | EP4J-1900: --tokens = many; it must be a whole number",
        "--num-tokens many    | EP4J-1900: --num-tokens = many; it must be a whole number",
        "--pressure-test 0    | EP4J-1900: --pressure-test = 0; it must be 1..604800",
        "--pressure-test 1 --iterations 5 | EP4J-1904: --iterations and --pressure-test exclude",
        "ht --device host --pressure-test 1 --mode graph | EP4J-1904: --pressure-test dispatches",
        "--pressure-test 1 --sms 1,2 | EP4J-1900: --sms = [1, 2]; it must be one number",
        "--shrink-test        | EP4J-1905: --shrink-test is for ll only: leave it out, or measure ll",
        "ll --shrink-test --pressure-test 1 | EP4J-1904: --pressure-test and --shrink-test exclude",
        "ll --shrink-test --test-ll-compatibility | EP4J-1905: --test-ll-compatibility is for all only:"
            + " leave it out, or measure all",
        "ll --shrink-test --pressure-test-mode 1 | EP4J-1904: --pressure-test-mode and --shrink-test",
        "--pressure-test-mode 2 | EP4J-1900: --pressure-test-mode = 2; it must be 0 or 1: a test",
        "--pressure-test-mode 0 --pressure-test | EP4J-1904: --pressure-test-mode 0 asks for no test",
        "--test-ll-compatibility --warmup 3 | EP4J-1904: --warmup and --test-ll-compatibility exclude",
        "ll --shrink-test --device host --ranks 1 | EP4J-1900: --ranks = 1; it must be 2 or more",
        "--json .             | EP4J-1907: --json .: ",
        "wires                | EP4J-1902: unknown operation 'wires': use ht, ll, all, moe,"
            + " nvlink, proxy, put or wire",
        "--frobnicate         | EP4J-1901: "
      })
  void wrongUsageIsRefusedBeforeRanksStart(String arguments, String message) {
    CommandLineRun run = CommandLineRun.of(("bench " + arguments).split(" ", -1));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(message).doesNotContain("\tat ");
  }

  @Test
  void theUsageLineNamesAllCommands() {
    CommandLine bench = new CommandLine(new BenchCommand());

    assertThat(bench.getHelp().synopsis(0))
        .contains("[" + String.join("|", bench.getSubcommands().keySet()) + "]");
  }

  @Test
  void anUnavailableEngineIsReported() {
    CommandLineRun run = CommandLineRun.of("bench", "--device", "cuda", "--ranks", "2");

    assertThat(run.code()).isEqualTo(ExitCodes.UNAVAILABLE);
    assertThat(run.err()).contains("engine 'cuda'").contains("host");
  }

  @Test
  void aWireWithoutItsLibraryIsReportedOnce() {
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
      assertThat(run.err()).contains("EP4J-8009: wire '" + missing + "'");
      assertThat(run.err().lines()).hasSize(1);
    }
  }

  @Test
  void excessiveMemoryIsRefusedBeforeTheKernelKillsARank() {
    CommandLineRun run = CommandLineRun.of("bench", "ht", "--ranks", "8", "--tokens", "10000000");

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.err()).contains(ErrorCode.NOT_ENOUGH_MEMORY.id());
  }

  static BenchSettings parse(String... arguments) {
    return command(arguments).settings();
  }

  private static BenchCommand command(String... arguments) {
    BenchCommand command = new BenchCommand();
    new CommandLine(command).setCaseInsensitiveEnumValuesAllowed(true).parseArgs(arguments);
    return command;
  }
}
