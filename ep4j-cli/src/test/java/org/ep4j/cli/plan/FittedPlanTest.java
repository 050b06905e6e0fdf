package org.ep4j.cli.plan;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Profiles fitted to the recorded kernels of two H200. */
class FittedPlanTest {
  private static final Path RESULTS = Path.of("..", "benchmarks", "results");
  private static final Pattern ERRORS =
      Pattern.compile("Errors: median ([0-9.]+) %, worst ([0-9.]+) %");

  @TempDir Path scratch;

  @Test
  void predictionsForOtherRunsOfTheMachineAreCloserThanThoseOfItsProfile() {
    double[] fitted =
        errors("--fit", h200("ht"), "--fit", h200("ht-tokens-512"), "--against", h200("ht-hot"));
    double[] before = errors("--against", h200("ht-hot"));

    // Median and worst of the runs that were fitted, then of the others.
    assertThat(fitted[0]).isLessThan(3);
    assertThat(fitted[1]).isLessThan(16);
    assertThat(fitted[2]).isLessThan(6);
    assertThat(fitted[3]).isLessThan(10);
    assertThat(fitted[2]).isLessThan(before[0]);
    assertThat(fitted[3]).isLessThan(before[1]);
  }

  private static double[] errors(String... options) {
    CommandLineRun run = profile(options);
    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    Matcher found = ERRORS.matcher(run.err());
    List<Double> errors = new ArrayList<>();
    while (found.find()) {
      errors.add(Double.valueOf(found.group(1)));
      errors.add(Double.valueOf(found.group(2)));
    }
    return errors.stream().mapToDouble(Double::doubleValue).toArray();
  }

  private static CommandLineRun profile(String... options) {
    List<String> arguments = new ArrayList<>(List.of("plan", "--machine", "h200", "--profile"));
    arguments.addAll(List.of(options));
    return CommandLineRun.of(arguments.toArray(String[]::new));
  }

  private static String h200(String run) {
    return RESULTS.resolve("h200-x2").resolve(run + ".json").toString();
  }

  @Test
  void theFittedProfileIsAMachine() throws IOException {
    CommandLineRun printed = profile("--fit", h200("ht"));
    assertThat(printed.code()).as(printed.err()).isEqualTo(ExitCodes.OK);
    assertThat(printed.out()).contains("fitted to 20 kernels", "ht.json");
    Path file = Files.writeString(scratch.resolve("mine.json"), printed.out());

    CommandLineRun read = CommandLineRun.of("plan", "--machine", file.toString(), "--ranks", "2");
    CommandLineRun atOnce =
        CommandLineRun.of("plan", "--machine", "h200", "--fit", h200("ht"), "--ranks", "2");

    assertThat(read.code()).as(read.err()).isEqualTo(ExitCodes.OK);
    assertThat(atOnce.out()).contains("Fitted to", "Errors: median").endsWith(read.out());
  }

  @ParameterizedTest
  @CsvSource({
    "epyc-2-cores/ht-4096-run-1.json, EP4J-8043, times of kernels",
    "h200-x2/ll-128.json, EP4J-8043, kind ll",
    "h200-x2/ht-expert-major.json, EP4J-8043, expert-major",
    "h200-x2/ht-cached.json, EP4J-8043, cached",
    "h200-x2/nodes-ht-staged.json, EP4J-8043, several nodes",
    "h200-x2/nvlink.json, EP4J-8050, ''",
    "no-such-file.json, EP4J-7003, cannot be read: there is no such file"
  })
  void runsThatDescribeNoNodeAreRefused(String run, String code, String reason) {
    CommandLineRun refused = profile("--fit", RESULTS.resolve(run).toString());

    assertThat(refused.code()).isNotZero();
    assertThat(refused.err()).contains(code, reason);
    assertThat(refused.out()).isEmpty();
  }

  /** Earlier versions wrote 0 ranks a node where the hosts were the nodes. */
  @Test
  void aRunWithFiguresBetweenNodesIsRefusedWhateverNodesItsOptionsName() throws IOException {
    assertRefused(
        "nodes-ht-staged", "\"ranks_per_node\" ?: 1", "\"ranks_per_node\": 0", "several nodes");
  }

  @Test
  void aRunBesideTrafficOfNcclIsRefused() throws IOException {
    assertRefused("ht", "\"beside_nccl\" ?: false", "\"beside_nccl\" : true", "beside_nccl yes");
  }

  /** A recorded run with another option is neither fitted nor compared. */
  private void assertRefused(String run, String option, String other, String reason)
      throws IOException {
    String text = Files.readString(Path.of(h200(run)));
    String changed = text.replaceAll(option, other);
    assertThat(changed).isNotEqualTo(text);
    Path file = Files.writeString(scratch.resolve("changed.json"), changed);

    for (String command : List.of("--fit", "--against")) {
      CommandLineRun refused = profile(command, file.toString());

      assertThat(refused.code()).isNotZero();
      assertThat(refused.err()).contains("EP4J-8043", reason);
    }
  }

  @Test
  void kernelsWithMoreSmsThanTheMachineHasAreRefused() throws IOException {
    String text = Files.readString(Path.of(h200("ht"))).replaceAll("\"sms\" ?: 64", "\"sms\": 640");
    Path file = Files.writeString(scratch.resolve("large.json"), text);

    for (String option : List.of("--fit", "--against")) {
      CommandLineRun refused = profile(option, file.toString());

      assertThat(refused.code()).isNotZero();
      assertThat(refused.err()).contains("EP4J-8043", "640 SMs", "132 at most");
    }
  }
}
