package org.ep4j.cli.launch;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.jspecify.annotations.Nullable;
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

  private @Nullable LinkedNamespaces namespaces;

  @BeforeEach
  void linkTwoNamespaces() throws Exception {
    namespaces = LinkedNamespaces.create();
  }

  @AfterEach
  void removeThem() throws Exception {
    if (namespaces != null) {
      namespaces.close();
    }
  }

  private LinkedNamespaces namespaces() {
    return requireNonNull(namespaces, "created before each test");
  }

  @Test
  void ranksRunInTheirNamespacesAndFindEachOther() {
    CommandLineRun run =
        launch(3, List.of("sh", "-c", "echo $RANK $LOCAL_RANK $(ip netns identify)"));

    assertThat(run.err()).isEmpty();
    assertThat(run.out().lines())
        .containsExactlyInAnyOrder(
            "[0] 0 0 " + namespaces().first(),
            "[1] 1 1 " + namespaces().first(),
            "[2] 2 0 " + namespaces().second());
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
    for (String namespace : namespaces().names()) {
      LinkedNamespaces.must(
          "tc -n "
              + namespace
              + " qdisc add dev "
              + LinkedNamespaces.LINK
              + " root netem delay 200ms loss 1%");
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
            List.of(
                "launch",
                "-n",
                String.valueOf(ranks),
                "--hosts",
                String.join(",", namespaces().names())));
    line.addAll(command);
    return CommandLineRun.of(line.toArray(String[]::new));
  }
}
