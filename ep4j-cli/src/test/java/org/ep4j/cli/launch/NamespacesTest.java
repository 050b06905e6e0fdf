package org.ep4j.cli.launch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * Ranks in two linked network namespaces, which have separate network stacks. Skipped without root
 * or namespaces; the test of a bad link also needs netem, which the virtual machine of {@code
 * tools/rxe-vm} has.
 */
class NamespacesTest {
  private static final String BENCH =
      "bench ht --join --device host --nodes 2 --wire tcp --tokens 12 --hidden 256 --topk 3"
          + " --experts 10 --iterations 3 --warmup 1 --buffers 1 --dtype bf16";

  private final String first = "ep4j-a" + ProcessHandle.current().pid();
  private final String second = "ep4j-b" + ProcessHandle.current().pid();
  private final List<String> made = new ArrayList<>();

  @BeforeEach
  void linkTwoNamespaces() throws Exception {
    for (String namespace : List.of(first, second)) {
      String problem = tool("ip netns add " + namespace);
      assumeTrue(problem.isEmpty(), "no network namespaces here: " + problem);
      made.add(namespace);
    }
    String problem =
        tool("ip -n " + first + " link add ep4j0 type veth peer name ep4j0 netns " + second);
    assumeTrue(problem.isEmpty(), "no veth pairs here: " + problem);
    int host = 1;
    for (String namespace : made) {
      assertThat(tool("ip -n " + namespace + " addr add 10.213.0." + host + "/24 dev ep4j0"))
          .isEmpty();
      assertThat(tool("ip -n " + namespace + " link set lo up")).isEmpty();
      assertThat(tool("ip -n " + namespace + " link set ep4j0 up")).isEmpty();
      host++;
    }
  }

  @AfterEach
  void removeThem() throws Exception {
    for (String namespace : made) {
      tool("ip netns del " + namespace);
    }
  }

  @Test
  void ranksRunInTheirNamespacesAndFindEachOther() {
    CommandLineRun run =
        launch(3, List.of("sh", "-c", "echo $RANK $LOCAL_RANK $(ip netns identify)"));

    assertThat(run.err()).isEmpty();
    assertThat(run.out().lines())
        .containsExactlyInAnyOrder("[0] 0 0 " + first, "[1] 1 1 " + first, "[2] 2 0 " + second);
  }

  @Test
  void dispatchAndCombineCrossTheLink() {
    CommandLineRun run = launch(3, bench());

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .contains("3 ranks of 2 nodes", "equal the oracle bit for bit", "wire alone");
  }

  @Test
  void delayAndLossChangeNoBit() throws Exception {
    for (String namespace : made) {
      String problem =
          tool("tc -n " + namespace + " qdisc add dev ep4j0 root netem delay 200ms loss 1%");
      assumeTrue(problem.isEmpty(), "no netem here: " + problem);
    }
    CommandLineRun run = launch(2, bench());

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("equal the oracle bit for bit");
  }

  private static List<String> bench() {
    List<String> command = new ArrayList<>(List.of("--env", "EP4J_LIVENESS_MS=20000", "--"));
    command.addAll(CliProcess.command(BENCH.split(" ", -1)));
    return command;
  }

  private CommandLineRun launch(int ranks, List<String> command) {
    List<String> line =
        new ArrayList<>(
            List.of("launch", "-n", String.valueOf(ranks), "--hosts", first + "," + second));
    line.addAll(command);
    return CommandLineRun.of(line.toArray(String[]::new));
  }

  /** Output of a failed command; empty if it succeeds. */
  private static String tool(String command) throws InterruptedException {
    try {
      Process process =
          new ProcessBuilder(command.split(" ", -1)).redirectErrorStream(true).start();
      String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      return process.waitFor() == 0 ? "" : command + ": " + said.strip();
    } catch (IOException e) {
      return String.valueOf(e.getMessage());
    }
  }
}
