package org.ep4j.cli.plan;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.ErrorCode;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class PlanCommandTest {
  @TempDir Path scratch;

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
  @ValueSource(strings = {"zipf", "hot"})
  void skewedRoutingTakesLongerAndRepeats(String routing) {
    String[] options = {"--machine", "h200", "--ranks", "8", "--routing"};

    CommandLineRun skewed = run(with(options, routing));

    assertThat(skewed.out()).isEqualTo(run(with(options, routing)).out());
    assertThat(busiest(skewed)).isGreaterThan(110);
    assertThat(busiest(run(with(options, "uniform")))).isEqualTo(100);
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
        "--routing mine.safetensors | PLAN_ROUTING | recorded routings cannot be read yet",
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

  private static int busiest(CommandLineRun run) {
    String line =
        run.out().lines().filter(l -> l.startsWith("The busiest rank")).findFirst().orElseThrow();
    return Integer.parseInt(line.replaceAll("\\D+", ""));
  }

  private static String[] with(String[] options, String last) {
    List<String> all = new ArrayList<>(List.of(options));
    all.add(last);
    return all.toArray(String[]::new);
  }

  private static CommandLineRun run(String... options) {
    List<String> arguments = new ArrayList<>(List.of("plan"));
    arguments.addAll(List.of(options));
    return CommandLineRun.of(arguments.toArray(String[]::new));
  }
}
