package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class BenchCommandTest {
  private static final String SMALL =
      "--tokens 12 --hidden 256 --topk 3 --experts 10 --iterations 5 --warmup 1 --buffers 2";

  @TempDir Path scratch;

  @ParameterizedTest
  @ValueSource(
      strings = {
        "all --threads --ranks 3",
        "ht --threads --ranks 2 --dtype fp8 --layout expert-major --apply-weights",
        "ht --threads --ranks 2 --dtype bf16 --layout expert-major --apply-weights --order expert",
        "ht --threads --ranks 2 --dtype nvfp4 --mode static --routing hot",
        "ht --threads --ranks 2 --dtype fp32 --layout expert-major --mode static --routing zipf",
        "ll --threads --ranks 2 --hook --zero-copy",
        "ll --threads --ranks 2 --partial",
        "ll --threads --ranks 2 --dtype bf16 --order expert --logfmt --hook",
        "ll --threads --ranks 2 --rank-major --zero-copy",
        "ll --threads --ranks 2 --dtype bf16 --logfmt --max-tokens 16"
      })
  void verifiesAndPrintsATable(String arguments) throws Exception {
    CommandLineRun run = bench(arguments);

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("equal the oracle bit for bit").contains("% of it");
    assertThat(run.out()).doesNotContain("\u001b");
    if (!arguments.startsWith("ll")) {
      assertThat(run.out()).containsPattern("dispatch \\w+ +5 +[0-9.]+ [um]s");
    }
    if (!arguments.startsWith("ht")) {
      assertThat(run.out()).containsPattern("ll_pair \\w+ +5 +[0-9.]+ [um]s");
    }
  }

  @Test
  void verifiesRanksThatAreProcessesOfOneNode() throws Exception {
    assumeTrue(
        Boolean.getBoolean("ep4j.full"),
        "processes of two nodes run these operations; -Dep4j.full=true runs this test");
    verifiesAndPrintsATable("all --processes --ranks 2");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "ht --threads --nodes 3 --wire inproc",
        "ht --threads --ranks 3 --ranks-per-node 2 --wire tcp --layout expert-major --dtype fp8",
        "all --processes --nodes 2 --ranks-per-node 1 --wire shm --topk-groups 1"
      })
  void acrossNodesASecondTableShowsTheTraffic(String arguments) throws Exception {
    Path file = scratch.resolve("nodes.json");
    CommandLineRun run = bench(arguments + " --json " + file);

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("equal the oracle bit for bit", "nodes (", "wire alone GB/s");
    assertThat(Files.readString(file)).contains("\"wire\" : \"" + wire(arguments) + "\",");
    assertThat(fields(Files.readString(file)))
        .contains("ranks_per_node", "between_nodes", "gbps_each_way", "wire_alone_gbps_each_way")
        .contains("scale_out_gbps_with_own_node");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "all --threads --ranks 3 --dtype bf16,fp8 --test-ll-compatibility --pressure-test-mode 1",
        "ht --threads --ranks 3 --nodes 2 --wire inproc --layout expert-major --mode static",
        "ll --threads --ranks 2 --hook --zero-copy"
      })
  void aPressureTestRunsCasesForItsTime(String arguments) throws Exception {
    Path file = scratch.resolve("pressure.json");
    CommandLineRun run =
        CommandLineRun.of(
            ("bench %s --pressure-test 1 --device host --json %s".formatted(arguments, file)
                    + " --tokens 12 --hidden 256 --topk 3 --experts 10")
                .split(" ", -1));

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).containsPattern("verified {2}[0-9]+ rounds of [1-9][0-9]* cases");
    assertThat(fields(Files.readString(file))).contains("cases", "rounds");
  }

  /** A process: the log, which names the masked rank, keeps the standard error of the JVM. */
  @Test
  void inAShrinkTestTheOthersContinueWithoutARank() throws Exception {
    Path file = scratch.resolve("shrink.json");
    CommandLineRun run =
        CliProcess.run(
            scratch,
            ("bench ll --shrink-test --threads --ranks 3 --device host --json "
                    + file
                    + " --tokens 12 --hidden 256 --topk 3 --experts 10")
                .split(" ", -1));

    assertThat(run.out())
        .containsPattern("verified +rank 2 was masked after [0-9.]+ s and is back");
    assertThat(run.err()).contains("rank 2");
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(fields(Files.readString(file))).contains("silent_rank", "masked_after_us");
  }

  /** Runs of different orders must not be compared. */
  @Test
  void theHeadingAndTheArtifactOfLowLatencyNameTheOrder() throws Exception {
    Path file = scratch.resolve("order.json");
    CommandLineRun run = bench("ll --threads --ranks 2 --dtype bf16 --order expert --json " + file);

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .contains("top-3 of 10 experts, summed by experts\n", "equal the oracle bit for bit");
    assertThat(Files.readString(file)).contains("\"order\" : \"expert\"");
  }

  private static String wire(String arguments) {
    return arguments.replaceFirst(".*--wire (\\w+).*", "$1");
  }

  /** A comparison must show which instructions both sides had. */
  @Test
  void theHeadingNamesTheInstructionsThatRan() throws Exception {
    CommandLineRun run = bench("ht --threads --ranks 2");

    boolean plain = "0".equals(System.getProperty("ep4j.host.vectorBits"));
    assertThat(run.out())
        .containsPattern("\n {10}" + (plain ? "no" : "\\d+-bit") + " vectors(, stores|\n)");
  }

  @Test
  void theDefaultNumberOfRanksFollowsTheCores() {
    int cores = Runtime.getRuntime().availableProcessors();

    assertThat(BenchCommand.hostRanks()).isEqualTo(Math.max(2, Math.min(4, cores)));
  }

  @Test
  void withoutNvlinkEachRankIsANode() throws Exception {
    CommandLineRun run = bench("ht --threads --ranks 3 --disable-nvlink --wire inproc");

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("equal the oracle bit for bit", "3 ranks of 3 nodes");
  }

  @Test
  void theArtifactHoldsEveryIteration() throws Exception {
    Path file = scratch.resolve("result.json");
    bench("all --threads --ranks 2 --json " + file);

    String json = Files.readString(file);
    List<String> fields = fields(json);
    assertThat(fields)
        .contains(
            "git",
            "java",
            "cpu",
            "cores",
            "flags",
            "configuration",
            "op",
            "median_us",
            "p99_us",
            "min_us",
            "max_us",
            "logical_gbps",
            "remote_gbps",
            "recv_rows",
            "ceiling_percent",
            "instructions");
    assertThat(json).contains("\"device\" : \"host\"", "\"wire\" : null", "\"warmup\" : 1,");
    assertThat(json).contains("\"dispatch\"", "\"combine\"", "\"ll_dispatch\"", "\"ll_combine\"");
    assertThat(json.replaceAll("\\s", "")).containsPattern("\"iterations_us\":\\[([0-9.E-]+,){4}");
    try (Stream<Path> files = Files.list(scratch)) {
      assertThat(files.map(f -> f.getFileName().toString()))
          .doesNotContain("result.json.unfinished");
    }
  }

  @Test
  void highThroughputRunsWithEachFormat() throws Exception {
    CommandLineRun run = bench("ht --threads --ranks 2 --dtype fp8,nvfp4");

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("dispatch fp8", "dispatch nvfp4");
  }

  @Test
  void aPageShowsTheRun() throws Exception {
    Path page = scratch.resolve("page.html");
    CommandLineRun run = bench("all --threads --ranks 2 --html " + page);

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(Files.readString(page))
        .contains("✓ Verified", "dispatch bf16", "ll_pair fp8", "12 (low latency: 12) tokens");
  }

  @Test
  void aPageThatCannotBeWrittenIsRefusedBeforeTheMeasurement() throws Exception {
    Path file = scratch.resolve("both");

    assertThat(bench("ht --threads --html " + scratch.resolve("none/page.html")).err())
        .contains("EP4J-8054");
    assertThat(bench("ht --threads --html %s --json %s".formatted(file, file)).err())
        .contains("EP4J-1904: --html and --json name the same file");
    Path link = Files.createSymbolicLink(scratch.resolve("link"), file);
    assertThat(bench("ht --threads --html %s --json %s".formatted(link, file)).err())
        .contains("EP4J-1904: --html and --json name the same file");
    assertThat(CommandLineRun.of("bench", "ht", "--pressure-test", "1", "--html", "" + file).err())
        .contains("--html shows measured times");
    assertThat(file).doesNotExist();
  }

  @Test
  void aRankThatIsKilledIsNamed() throws Exception {
    String arguments =
        "bench ht --processes --ranks 2 --device host " + SMALL + " --iterations 100000";
    try (CliProcess bench =
        CliProcess.start(
            scratch, Map.of(), arguments.replace("--iterations 5 ", "").split(" ", -1))) {
      bench.awaitOut("verified");
      bench.ranks().findFirst().orElseThrow().destroyForcibly();
      CommandLineRun run = bench.end();

      assertThat(run.code()).isEqualTo(ExitCodes.PEER);
      assertThat(run.err()).containsPattern("rank [01] ended with exit code 137 \\(SIGKILL");
    }
  }

  @Test
  void aLaunchersWorldIsJoined() {
    List<String> command = new ArrayList<>(List.of("launch", "-n", "2", "--"));
    command.addAll(CliProcess.command(("bench ht --join " + SMALL).split(" ", -1)));
    CommandLineRun run = CommandLineRun.of(command.toArray(String[]::new));

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("[0] High throughput").contains("2 ranks (processes)");
    assertThat(run.out()).doesNotContain("[1]");
  }

  /** Ranks without common shared memory are on different hosts, as far as ep4j is concerned. */
  @Test
  void theOracleAndTheFilesKnowTheHostsOfAJoinedWorld() throws Exception {
    Path json = scratch.resolve("run.json");
    Path trace = scratch.resolve("trace.json");
    String files = " --json %s --trace %s".formatted(json, trace);
    CommandLineRun run = onTwoHosts("bench all --join --wire tcp --device host " + SMALL + files);

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("4 ranks of 2 nodes (processes)", "between nodes");
    assertThat(Files.readString(json)).contains("\"ranks_per_node\" : 2", "\"wire\" : \"tcp\"");
    assertThat(Files.readString(trace)).contains("node 0", "node 1");
  }

  @Test
  void aPressureTestKnowsTheHostsOfAJoinedWorld() throws Exception {
    assumeTrue(
        Boolean.getBoolean("ep4j.full"),
        "four processes take seconds of processor time; -Dep4j.full=true runs this test");
    Path json = scratch.resolve("run.json");
    CommandLineRun run =
        onTwoHosts(
            "bench ht --join --wire tcp --device host --pressure-test 1 --tokens 12 --hidden 256"
                + " --topk 3 --experts 10 --json "
                + json);

    assertThat(run.code()).as(run.out() + run.err()).isEqualTo(ExitCodes.OK);
    assertThat(Files.readString(json)).contains("\"ranks_per_node\" : 2", "\"wire\" : \"tcp\"");
  }

  private CommandLineRun onTwoHosts(String arguments) {
    String hosts = "host=$0/$((EP4J_RANK / 2)); mkdir -p \"$host\"; EP4J_SHM_DIR=$host exec \"$@\"";
    List<String> command =
        new ArrayList<>(List.of("launch", "-n", "4", "--", "sh", "-c", hosts, scratch.toString()));
    command.addAll(CliProcess.command(arguments.split(" ", -1)));
    return CommandLineRun.of(command.toArray(String[]::new));
  }

  /** The number of ranks is that of the joined world, not that of the cores. */
  @Test
  void aShrinkTestRefusesAJoinedWorldOfOneRank() {
    List<String> command = new ArrayList<>(List.of("launch", "-n", "1", "--"));
    command.addAll(
        CliProcess.command(
            "bench ll --join --shrink-test --device host --tokens 12 --hidden 256".split(" ", -1)));
    CommandLineRun run = CommandLineRun.of(command.toArray(String[]::new));

    assertThat(run.err()).contains("EP4J-1900: --ranks = 1; it must be 2 or more");
    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
  }

  /** Runs in this JVM; only ranks that are processes need more. */
  private CommandLineRun bench(String arguments) throws IOException, InterruptedException {
    String[] line = ("bench " + arguments + " --device host " + SMALL).split(" ", -1);
    return arguments.contains("--processes")
        ? CliProcess.run(scratch, line)
        : CommandLineRun.of(line);
  }

  /** Names of all fields; fails if the text is not JSON. */
  private static List<String> fields(String json) throws IOException {
    List<String> fields = new ArrayList<>();
    try (JsonParser parser = new JsonFactory().createParser(json)) {
      for (JsonToken token = parser.nextToken(); token != null; token = parser.nextToken()) {
        if (token == JsonToken.FIELD_NAME) {
          fields.add(parser.currentName());
        }
      }
    }
    return fields;
  }
}
