package org.ep4j.cli.plan;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.error.ErrorCode;
import org.ep4j.io.SafetensorsWriter;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class PlanCommandTest {
  @TempDir Path scratch;

  /** On nodes of one rank no group has room for a second replica of an expert. */
  @Test
  void replicasOfGroupsStayOnTheirNodes() {
    CommandLineRun run =
        run(
            "--machine",
            "h100-cx7",
            "--ranks",
            "8",
            "--ranks-per-node",
            "1",
            "--routing",
            "grouped:4",
            "--balance",
            "--json",
            "-");

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("\"replicas\" : 0");
  }

  @Test
  void aMachineAndRanksSuffice() {
    CommandLineRun run = run("--machine", "h100-cx7", "--ranks", "64");

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .contains("Plan for h100-cx7", "64 ranks, 8 on a node", "RDMA", "dispatch FP8")
        .contains("combine BF16", "nic", "Memory of a rank");
  }

  @Test
  void allOptionsReachTheFile() throws IOException {
    Path file = scratch.resolve("plan.json");

    CommandLineRun run =
        run(
            "--machine",
            "h800-cx7",
            "--kind",
            "ll",
            "--ranks",
            "32",
            "--ranks-per-node",
            "8",
            "--tokens",
            "64",
            "--hidden",
            "2048",
            "--topk",
            "4",
            "--experts",
            "128",
            "--dtype",
            "bf16",
            "--routing",
            "grouped:2",
            "--sms",
            "20",
            "--backend",
            "nvshmem",
            "--json",
            file.toString());

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(Files.readString(file))
        .contains("\"kind\" : \"ll\"", "\"ranks\" : 32", "\"ranks_per_node\" : 8")
        .contains("\"tokens\" : 64", "\"hidden\" : 2048", "\"topk\" : 4", "\"experts\" : 128")
        .contains("\"dtype\" : \"bf16\"", "\"routing\" : \"grouped:2\"", "\"sms\" : 20")
        .contains("\"backend\" : \"nvshmem\"", "\"machine\" : \"h800-cx7\"")
        .contains("\"dispatch_us\"", "\"combine_us\"", "\"dispatch_gbps\"", "\"combine_gbps\"")
        .contains("\"limit\" : \"", "\"bytes_symmetric\"", "\"nic_us\"", "\"fixed_us\"");
  }

  @Test
  void tablesMakeRoomForJsonOnStandardOutput() {
    CommandLineRun run = run("--machine", "gb200-nvl72", "--ranks", "32", "--json", "-");

    assertThat(run.out()).startsWith("{").contains("\"nic_us\" : 0.0");
    assertThat(run.err()).contains("32 ranks, 32 on a node", "NVLink");
  }

  @ParameterizedTest
  @CsvSource({"h100-cx7, 64, 8", "h100-cx7, 4, 4", "gb200-nvl72, 144, 72", "gb200-nvl72, 128, 64"})
  void nodesAreAsLargeAsTheMachineHasThemAndAllAlike(String machine, String ranks, String onANode) {
    CommandLineRun run = run("--machine", machine, "--ranks", ranks, "--experts", "1152");

    assertThat(run.out()).contains(ranks + " ranks, " + onANode + " on a node");
  }

  @ParameterizedTest
  @ValueSource(strings = {"zipf", "hot"})
  void skewedRoutingTakesLongerAndRepeats(String routing) {
    String[] options = {"--machine", "h200", "--ranks", "8", "--routing"};

    CommandLineRun skewed = run(with(options, routing));

    assertThat(skewed.out()).isEqualTo(run(with(options, routing)).out());
    assertThat(busiest(skewed)).isGreaterThan(110);
    assertThat(busiest(run(with(options, "uniform")))).isEqualTo(100);
  }

  @Test
  void balancedPlacementsAreWrittenAndReadAgain() {
    Path file = scratch.resolve("placement.json");
    String[] options = {"--machine", "h100-cx7", "--ranks", "16", "--routing", "zipf"};

    CommandLineRun balanced =
        run(with(options, "--balance", "--replicas", "32", "--placement-out", file.toString()));
    CommandLineRun read = run(with(options, "--placement", file.toString()));

    assertThat(balanced.code()).as(balanced.err()).isEqualTo(ExitCodes.OK);
    assertThat(balanced.out()).contains("blocks", "placed", "mean / max load of a rank");
    assertThat(busiest(balanced)).isLessThan(103);
    assertThat(busiest(run(options))).isGreaterThan(150);
    assertThat(read.out()).isEqualTo(balanced.out());
    assertThat(PlacementFile.read(file).placement().experts()).isEqualTo(288);
  }

  @Test
  void oneFileForThePlanAndThePlacementIsRefused() throws IOException {
    Path file = scratch.resolve("both.json");
    Path link = Files.createSymbolicLink(scratch.resolve("link.json"), file);

    CommandLineRun run =
        run("--machine", "h200", "--balance", "--json", "" + file, "--placement-out", "" + link);

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("--placement-out and --json name the same file");
    assertThat(file).doesNotExist();
  }

  @Test
  void theFileHasTheGainOfAPlacement() {
    CommandLineRun run =
        run("--machine", "h200", "--kind", "ll", "--routing", "hot", "--balance", "--json", "-");

    // An eighth of 256 experts more: 36 slots on each of 8 ranks.
    assertThat(run.out())
        .contains("\"replicas\" : 32", "\"experts_per_rank\" : 36", "\"balancedness\" : 0.99")
        .contains("\"blocks_balancedness\" : 0.1", "\"blocks_dispatch_us\"")
        .contains("\"blocks_combine_us\"", "\"blocks_imbalance\"");
    assertThat(run.err()).contains("mean / max received rows");
  }

  @Test
  void usualReplicasFillEqualSlots() {
    Path file = scratch.resolve("placement.json");

    CommandLineRun run =
        run(
            "--machine",
            "h100-cx7",
            "--ranks",
            "24",
            "--experts",
            "100",
            "--topk",
            "4",
            "--routing",
            "zipf",
            "--balance",
            "--placement-out",
            file.toString());

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    // 100 and 13 more are 113; 24 x 5 are the next equal slots.
    assertThat(PlacementFile.read(file).placement().experts()).isEqualTo(120);
  }

  @Test
  void groupsOfABalancedPlanStayOnTheirNodes() {
    Path file = scratch.resolve("placement.json");

    CommandLineRun run =
        run(
            "--machine",
            "h100-cx7",
            "--ranks",
            "32",
            "--routing",
            "grouped:2",
            "--balance",
            "--placement-out",
            file.toString());

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    ReplicatedPlacement placed = PlacementFile.read(file);
    for (int physical = 0; physical < placed.placement().experts(); physical++) {
      int first =
          placed.placement().rankOf(placed.replica(placed.logicalOf(physical) / 64 * 64, 0));
      assertThat(placed.placement().rankOf(physical) / 8).isEqualTo(first / 8);
    }
  }

  @Test
  void recordedRoutingSetsTokensTopkAndExperts() {
    Path file = scratch.resolve("routing.safetensors");
    long[] ids = new long[64 * 3];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = i % 3 == 0 ? 0 : 1 + i % 15;
    }
    SafetensorsWriter.write(
        file, Map.of("experts", "16"), Map.of("topk_idx", Tensor.of(ids, 64, 3)));

    CommandLineRun run = run("--machine", "h200", "--routing", file.toString());

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .contains("8 ranks, 8 on a node, 8 tokens", "top-3 of 16", "recorded (64 tokens)");
    CommandLineRun fewer = run("--machine", "h200", "--routing", file.toString(), "--experts", "8");
    assertThat(fewer.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(fewer.err()).contains(ErrorCode.PLAN_SHAPE.id(), "experts = 8", "more than 15");
  }

  @Test
  void aPrintedProfileIsAMachine() throws IOException {
    CommandLineRun printed = run("--machine", "b200", "--profile");
    Path file = scratch.resolve("mine.json");
    Files.writeString(file, printed.out().replace("\"name\": \"b200\"", "\"name\": \"mine\""));

    CommandLineRun run = run("--machine", file.toString());

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("Plan for mine", "8 ranks, 8 on a node");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--ranks 12 --ranks-per-node 8 --experts 240 | PLAN_SHAPE | ranks-per-node = 8",
        "--ranks 24 | PLAN_SHAPE | experts = 256; it must be a multiple of the 24 ranks",
        "--ranks 16 --ranks-per-node 16 | PLAN_SHAPE | ranks-per-node = 16; it must be 1..8",
        "--sms 133 | PLAN_SHAPE | sms = 133; it must be 1..132 on h100-cx7",
        "--topk 65 | PLAN_SHAPE | topk = 65",
        "--routing grouped:0 | BAD_OPTION_VALUE | grouped:1 or more",
        "--routing mine.safetensors | PLAN_ROUTING | a file or directory that exists",
        "--routing= | PLAN_ROUTING | a file or directory that exists",
        "--replicas 8 | CONFLICTING_OPTIONS | --replicas needs --balance",
        "--placement-out p.json | CONFLICTING_OPTIONS | --placement-out needs --balance",
        "--placement p.json --balance | CONFLICTING_OPTIONS | exclude each other",
        "--placement p.json | PLACEMENT_INVALID | p.json; it must be a file",
        "--balance --placement-out / | BAD_JSON_FILE | --placement-out /: is a directory",
        "--balance --placement-out - --json - | CONFLICTING_OPTIONS | name the same file, -",
        "--balance --replicas -1 | EXPERT_REPLICAS | replicas = -1",
        "--balance --replicas 3000 | EXPERT_REPLICAS | replicas = 3000; it must be 0..1792",
        "--balance --experts 8 --ranks 16 --replicas 4 | EXPERT_REPLICAS | 8 replicas or more",
        "--balance --ranks 0 | EXPERT_PLACEMENT | ranks = 0",
        "--balance --experts 2000000000 | PLAN_SHAPE | experts = 2000000000",
        "--late 0:5 | CONFLICTING_OPTIONS | --late needs --simulate",
        "--lost-port 0 | CONFLICTING_OPTIONS | --lost-port needs --simulate",
        "--simulate --late 5 | BAD_OPTION_VALUE | --late = 5; it must be RANK:MICROS",
        "--simulate --slow-rank 1:NaN | BAD_OPTION_VALUE | RANK:FACTOR, for example 3:1.5",
        "--simulate --slow-nic 1 | BAD_OPTION_VALUE | RANK:SHARE, for example 3:0.5",
        "--simulate --late -1:5 | BAD_OPTION_VALUE | --late = -1:5",
        "--simulate --late 1:5 --late 1:6 | BAD_OPTION_VALUE | given once for each rank",
        "--simulate --slow-rank 8:2 | PLAN_PERTURBATION | slow-rank: rank = 8; it must be 0..7",
        "--simulate --slow-rank 1:0.5 | PLAN_PERTURBATION | slow-rank of rank 1 = 0.5",
        "--simulate --slow-nic 1:0.5 | PLAN_PERTURBATION | no row crosses a NIC",
        "--simulate --ranks 16 --slow-nic 1:0 | PLAN_PERTURBATION | slow-nic of rank 1 = 0",
        "--simulate --ranks 16 --lost-port 1 | PLAN_PERTURBATION | less than the 1 of h100-cx7",
        "--backend auto | BAD_OPTION_VALUE | direct, nccl or nvshmem",
        "--dtype fp4 | BAD_OPTION_VALUE | --dtype",
        "--kind all | BAD_OPTION_VALUE | --kind",
        "--machine h100 | PROFILE_INVALID | h100-cx7",
        "--json / | BAD_JSON_FILE | is a directory"
      })
  void badOptionsAreRefused(String options, ErrorCode code, String text) {
    List<String> arguments = new ArrayList<>(List.of(options.split(" ")));
    if (!arguments.contains("--machine")) {
      arguments.addAll(List.of("--machine", "h100-cx7"));
    }

    CommandLineRun run = run(arguments.toArray(String[]::new));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(code.id(), text);
    assertThat(run.out()).isEmpty();
  }

  @Test
  void aMachineIsNeeded() {
    CommandLineRun run = run("--ranks", "8");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(ErrorCode.MISSING_ARGUMENT.id(), "--machine");
  }

  @Test
  void aSimulationNamesTheSlowNicAndItsCost() {
    String[] options = {
      "--machine",
      "h100-cx7",
      "--ranks",
      "16",
      "--tokens",
      "512",
      "--simulate",
      "--slow-nic",
      "9:0.25"
    };

    CommandLineRun run = run(options);
    CommandLineRun file = run(with(options, "--json", "-"));

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .contains("simulated", "closed form", "all alike", "cost")
        .containsPattern("dispatch .* NIC (in|out) of rank 9 ")
        .containsPattern("Simulated .* million events in .* s, in chunks of 32 rows at most");
    assertThat(file.out())
        .contains("\"simulated\" : {", "\"dispatch_us\" : ", "\"combine_busiest_rank\" : 9")
        .contains("\"dispatch_alike_us\" : ", "\"combine_alike_us\" : ")
        .contains("\"chunk_rows\" : 32.0", "\"events\" : ", "\"seconds\" : ");
  }

  @Test
  void withoutPerturbationsNothingIsCompared() {
    CommandLineRun run =
        run("--machine", "h200", "--kind", "ll", "--ranks", "4", "--simulate", "--json", "-");

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("\"simulated\" : {").doesNotContain("alike");
    assertThat(run.err()).contains("simulated").doesNotContain("all alike");
  }

  @Test
  void lostPortsNeedAnother() {
    String[] options = {
      "--machine", "h100-roce-2x200", "--ranks", "16", "--tokens", "512", "--simulate"
    };

    CommandLineRun one = run(with(options, "--lost-port", "3"));
    CommandLineRun both = run(with(options, "--lost-port", "3", "--lost-port", "3"));

    assertThat(one.code()).as(one.err()).isEqualTo(ExitCodes.OK);
    assertThat(one.out()).containsPattern("dispatch .* NIC (in|out) of rank 3 ");
    assertThat(both.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(both.err()).contains(ErrorCode.PLAN_PERTURBATION.id(), "lost-port of rank 3 = 2");
  }

  private static int busiest(CommandLineRun run) {
    String line =
        run.out().lines().filter(l -> l.startsWith("The busiest rank")).findFirst().orElseThrow();
    return Integer.parseInt(line.replaceAll("\\D+", ""));
  }

  private static String[] with(String[] options, String... last) {
    List<String> all = new ArrayList<>(List.of(options));
    all.addAll(List.of(last));
    return all.toArray(String[]::new);
  }

  private static CommandLineRun run(String... options) {
    List<String> arguments = new ArrayList<>(List.of("plan"));
    arguments.addAll(List.of(options));
    return CommandLineRun.of(arguments.toArray(String[]::new));
  }
}
