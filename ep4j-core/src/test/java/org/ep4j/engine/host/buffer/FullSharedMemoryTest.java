package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
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

  @TempDir private Path directory;

  @BeforeAll
  static void requireNamespaces(@TempDir Path directory) throws Exception {
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

  private List<String> run(String scenario) throws Exception {
    String script = "export EP4J_SHM_DIR=" + directory + " && " + MOUNT + " && exec \"$@\"";
    ForkedJvm.Ended ended =
        ForkedJvm.run(
            List.of("unshare", "-rm", "sh", "-c", script, "sh"),
            FullSharedMemory.class,
            List.of(
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-Xmx128m",
                "--enable-native-access=ALL-UNNAMED",
                "--add-modules=jdk.incubator.vector"),
            List.of(scenario));
    assertThat(ended.exitCode()).as("%s", ended.lines()).isZero();
    return ended.lines().stream().filter(line -> !line.startsWith("WARNING")).toList();
  }

  @Test
  void aBufferThatCannotFitIsRefusedWithTheBytes() throws Exception {
    assertThat(run("open"))
        .singleElement()
        .asString()
        .startsWith("EP4J-3050: rank 0 cannot create")
        .contains("67108864 bytes are free there, 2 ranks use 57", "together: lower maxTokens");
  }

  @Test
  void combineInputHasMemoryOrIsRefused() throws Exception {
    List<String> lines = run("combine");
    assertThat(lines).hasSize(2).last().isEqualTo("combined 3.0");
    assertThat(lines.getFirst())
        .startsWith("EP4J-4002: the system cannot provide 5734400 bytes of shared memory")
        .contains("has 0 of 67108864 bytes free");
  }

  @Test
  void factorsOfPaddingRowsHaveMemoryOrAreRefused() throws Exception {
    List<String> lines = run("padding");
    assertThat(lines).hasSize(2).last().isEqualTo("written");
    assertThat(lines.getFirst())
        .startsWith("EP4J-4002: the system cannot provide 16384 bytes of shared memory")
        .contains("has 0 of 67108864 bytes free");
  }

  /** The tensor of a dispatch of fixed size has rows that no peer writes. */
  @Test
  void unusedRowsHaveMemoryOrAreRefused() throws Exception {
    List<String> lines = run("unused");
    assertThat(lines).hasSize(2).last().isEqualTo("written");
    assertThat(lines.getFirst())
        .startsWith("EP4J-4002: the system cannot provide")
        .contains("has 0 of 67108864 bytes free");
  }

  @Test
  void theMemoryOfAWireIsThereFromTheBeginning() throws Exception {
    assertThat(run("wire")).containsExactly("written");
  }

  @Test
  void theLowLatencyCombineBufferHasMemoryOrIsRefused() throws Exception {
    List<String> lines = run("lowLatency");
    assertThat(lines).hasSize(2).last().isEqualTo("combined");
    assertThat(lines.getFirst())
        .startsWith("EP4J-4002: the system cannot provide 917504 bytes of shared memory")
        .contains("has 0 of 67108864 bytes free");
  }

  /** The words of recovery have memory from the beginning. */
  @Test
  void resetNeedsNoMemory() throws Exception {
    List<String> lines = run("reset");
    assertThat(lines).hasSize(3);
    assertThat(lines.getFirst())
        .startsWith("EP4J-4002: dispatch")
        .contains("has 0 of 67108864 bytes free", "open one with lower maxTokens");
    assertThat(lines.subList(1, 3)).containsExactly("reset", "received 400");
  }
}
