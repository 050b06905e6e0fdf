package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.ep4j.engine.host.kernel.ForkedJvm;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Ranks in processes whose directory of shared memory is full: 64 MiB, as in containers. */
@Execution(ExecutionMode.CONCURRENT) // waits for child processes
class FullSharedMemoryTest {
  private static final String MOUNT = "mount -t tmpfs -o size=64m tmpfs \"$EP4J_SHM_DIR\"";

  /** The lines of each scenario, and of the process if it ended in one. */
  private static final Map<String, List<String>> LINES = new HashMap<>();

  private static int exitCode;

  /** One process for all: its start takes as long as a scenario. */
  @BeforeAll
  static void runScenarios(@TempDir Path directory) throws Exception {
    requireNamespaces(directory);
    String script =
        "export EP4J_JOB_FILES=0 EP4J_SHM_DIR=" + directory + " && " + MOUNT + " && exec \"$@\"";
    ForkedJvm.Ended ended =
        ForkedJvm.run(
            List.of("unshare", "-rm", "sh", "-c", script, "sh"),
            FullSharedMemory.class,
            List.of(
                "-XX:TieredStopAtLevel=1",
                "-Dep4j.host.vectorBits=0",
                "-XX:+UseSerialGC",
                "-Xmx128m",
                "--enable-native-access=ALL-UNNAMED",
                "--add-modules=jdk.incubator.vector"),
            List.of(
                "open",
                "combine",
                "padding",
                "unused",
                "wire",
                "lowLatency",
                "reset",
                "rowLengths"));
    exitCode = ended.exitCode();
    List<String> lines = new ArrayList<>();
    for (String line : ended.lines()) {
      if (line.startsWith(FullSharedMemory.HEADING)) {
        lines = new ArrayList<>();
        LINES.put(line.substring(FullSharedMemory.HEADING.length()), lines);
      } else if (!line.startsWith("WARNING")) {
        lines.add(line);
      }
    }
  }

  private static void requireNamespaces(Path directory) throws Exception {
    ProcessBuilder trial = new ProcessBuilder("unshare", "-rm", "sh", "-c", MOUNT);
    trial.environment().put("EP4J_SHM_DIR", directory.toString());
    boolean mounts;
    try {
      mounts = trial.start().waitFor() == 0;
    } catch (java.io.IOException e) {
      mounts = false;
    }
    assumeTrue(mounts, "this user cannot mount a tmpfs in a namespace (unshare -rm)");
  }

  /** What a scenario printed. */
  private static List<String> run(String scenario) {
    assertThat(LINES).as("exit code %d", exitCode).containsKey(scenario);
    return Objects.requireNonNull(LINES.get(scenario));
  }

  /** A page that the system cannot provide ends the process, in the last scenario that began. */
  @Test
  void noScenarioEndsTheProcess() {
    assertThat(exitCode).as("%s", LINES).isZero();
  }

  @Test
  void aBufferThatCannotFitIsRefusedWithTheBytes() {
    assertThat(run("open"))
        .singleElement()
        .asString()
        .startsWith("EP4J-3050: rank 0 cannot create")
        .contains("67108864 bytes are free there, 2 ranks use 57", "together: lower maxTokens");
  }

  @Test
  void combineInputHasMemoryOrIsRefused() {
    List<String> lines = run("combine");
    assertThat(lines).hasSize(2).last().isEqualTo("combined 3.0");
    assertThat(lines.getFirst())
        .startsWith("EP4J-4002: the system cannot provide 5734400 bytes of shared memory")
        .contains("has 0 of 67108864 bytes free");
  }

  @Test
  void factorsOfPaddingRowsHaveMemoryOrAreRefused() {
    List<String> lines = run("padding");
    assertThat(lines).hasSize(2).last().isEqualTo("written");
    assertThat(lines.getFirst())
        .startsWith("EP4J-4002: the system cannot provide 16384 bytes of shared memory")
        .contains("has 0 of 67108864 bytes free");
  }

  /** The tensor of a dispatch of fixed size has rows that no peer writes. */
  @Test
  void unusedRowsHaveMemoryOrAreRefused() {
    List<String> lines = run("unused");
    assertThat(lines).hasSize(2).last().isEqualTo("written");
    assertThat(lines.getFirst())
        .startsWith("EP4J-4002: the system cannot provide")
        .contains("has 0 of 67108864 bytes free");
  }

  @Test
  void theMemoryOfAWireIsThereFromTheBeginning() {
    assertThat(run("wire")).containsExactly("written");
  }

  @Test
  void theLowLatencyCombineBufferHasMemoryOrIsRefused() {
    List<String> lines = run("lowLatency");
    assertThat(lines).hasSize(2).last().isEqualTo("combined");
    assertThat(lines.getFirst())
        .startsWith("EP4J-4002: the system cannot provide 917504 bytes of shared memory")
        .contains("has 0 of 67108864 bytes free");
  }

  @Test
  void theCombineBufferOfLongRowsAfterShortOnesHasMemoryOrIsRefused() {
    assertThat(run("rowLengths"))
        .singleElement()
        .asString()
        .startsWith("EP4J-4002: the system cannot provide ")
        .contains("has 0 of 67108864 bytes free");
  }

  /** The words of recovery have memory from the beginning. */
  @Test
  void resetNeedsNoMemory() {
    List<String> lines = run("reset");
    assertThat(lines).hasSize(3);
    assertThat(lines.getFirst())
        .startsWith("EP4J-4002: dispatch")
        .contains("has 0 of 67108864 bytes free", "open one with lower maxTokens");
    assertThat(lines.subList(1, 3)).containsExactly("reset", "received 400");
  }
}
