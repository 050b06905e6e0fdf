package org.ep4j.cli.launch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code launch --hosts N} creates namespaces and removes them; skipped without the permission. */
class MadeNamespacesTest {
  private static final String BENCH =
      "bench ht --join --device host --wire tcp --tokens 12 --hidden 256 --topk 3"
          + " --experts 10 --iterations 3 --warmup 1 --buffers 1 --dtype bf16";
  private static final String REPORT = "echo at $(ip netns identify) of $WORLD_SIZE";

  @TempDir Path scratch;

  @BeforeEach
  void needsNamespaces() throws InterruptedException {
    try (MadeNamespaces one = MadeNamespaces.make(1)) {
      assertThat(one.names()).hasSize(1);
    } catch (CommandFailure e) {
      assumeTrue(false, "no network namespaces here: " + e.getMessage());
    }
  }

  /** The wire connects all hosts with each other. */
  @ParameterizedTest
  @CsvSource({"3, 3", "4, 2"})
  void dispatchAndCombineRunOnSeveralHostsFromOneCommand(int ranks, int hosts) {
    assumeTrue(
        hosts == 3 || Boolean.getBoolean("ep4j.full"),
        "NamespacesTest has several ranks a host; -Dep4j.full=true runs it");
    String bench = BENCH + " --nodes " + hosts;
    CommandLineRun run = launch(ranks, hosts, CliProcess.command(bench.split(" ", -1)));

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .contains(
            ranks + " ranks of " + hosts + " nodes", "equal the oracle bit for bit", "wire alone");
  }

  @Test
  void everyHostIsANamespaceAndAllAreRemoved() throws Exception {
    CommandLineRun run = launch(3, 3, List.of("sh", "-c", REPORT));

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    String prefix = prefix(run.out());
    assertThat(run.out().lines())
        .containsExactlyInAnyOrder(
            "[0] at " + prefix + "1 of 3",
            "[1] at " + prefix + "2 of 3",
            "[2] at " + prefix + "3 of 3");
    assertThat(leftBy(prefix)).isEmpty();
  }

  @Test
  void namespacesAreRemovedAfterAFailure() throws Exception {
    CommandLineRun run = launch(2, 2, List.of("sh", "-c", REPORT + "; exit 7"));

    assertThat(run.code()).isEqualTo(7);
    assertThat(leftBy(prefix(run.out()))).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(strings = {"TERM", "INT"})
  void namespacesAreRemovedWhenTheLaunchIsInterrupted(String signal) throws Exception {
    List<String> line = new ArrayList<>(List.of("launch", "-n", "2", "--hosts", "2", "--"));
    line.addAll(List.of("sh", "-c", REPORT + "; exec sleep 100"));
    try (CliProcess process = CliProcess.start(scratch, Map.of(), line.toArray(String[]::new))) {
      process.awaitOut("[0] at ");
      process.awaitOut("[1] at ");
      String prefix = prefix(process.out());
      assertThat(leftBy(prefix)).as("while it runs").hasSize(3);

      process.signal(signal);
      process.end();

      assertThat(leftBy(prefix)).isEmpty();
    }
  }

  private static CommandLineRun launch(int ranks, int hosts, List<String> command) {
    List<String> line =
        new ArrayList<>(
            List.of("launch", "-n", String.valueOf(ranks), "--hosts", String.valueOf(hosts), "--"));
    line.addAll(command);
    return CommandLineRun.of(line.toArray(String[]::new));
  }

  /** Prefix of the names of a launch. */
  private static String prefix(String out) {
    return out.lines()
        .filter(line -> line.contains(" at ep4j-"))
        .findFirst()
        .orElseThrow(() -> new AssertionError(out))
        .replaceAll(".* at (ep4j-\\d+-)\\S+ of .*", "$1");
  }

  private static List<String> leftBy(String prefix) throws InterruptedException {
    return IpTool.run("netns", "list")
        .text()
        .lines()
        .map(line -> line.split(" ", 2)[0])
        .filter(name -> name.startsWith(prefix))
        .toList();
  }
}
