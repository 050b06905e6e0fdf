package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.ep4j.conformance.world.StubLibraries;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Libraries that can be loaded but not used. */
class NcclLibrariesTest {
  private static final String FILE = "libnccl.so.2";

  @TempDir private Path directory;

  /** Prints the result of the probe, and the transport of puts. */
  public static final class Probe {
    private Probe() {}

    /** Entry point. */
    public static void main(String... arguments) {
      System.out.println(new NcclBackendProvider().probe());
      System.out.println(new NcclBackendProvider().puts());
    }
  }

  @Test
  void oldLibraryIsReportedWithItsVersion() throws IOException, InterruptedException {
    Path library = compile(directory, 22707);
    assertThat(probe("EP4J_NCCL_HOME")).contains(library + " is NCCL 2.27.7, too old");
  }

  @Test
  void libraryWithoutItsFunctionsIsReportedWithTheirNames()
      throws IOException, InterruptedException {
    compile(directory, 22809);
    assertThat(probe("EP4J_NCCL_HOME")).contains("lacks ncclGetUniqueId, ncclCommInitRankConfig");
  }

  @Test
  void aLibraryWithoutGinLeavesPutsToTheProxy() throws IOException, InterruptedException {
    compile(directory, 22803);
    assertThat(probe("EP4J_NCCL_HOME")).contains("between nodes the proxy: GIN needs NCCL 2.28.7");
  }

  @Test
  void anOldLibraryDoesNotHideANewerOne() throws IOException, InterruptedException {
    compile(directory, 22803);
    Path python = directory.resolve("lib/python3.12/site-packages/nvidia/nccl/lib");
    Path newer = compile(Files.createDirectories(python), 22902);
    assertThat(
            StubLibraries.run(
                Probe.class,
                Map.of("NCCL_DIR", directory.toString(), "VIRTUAL_ENV", directory.toString())))
        .contains(newer + " lacks ncclGetUniqueId");
  }

  @Test
  void fileThatIsNoLibraryIsReportedWithTheVariable() throws IOException, InterruptedException {
    Files.writeString(directory.resolve(FILE), "no library");
    assertThat(probe("EP4J_NCCL_HOME"))
        .contains("EP4J_NCCL_HOME is '" + directory + "', neither a loadable library");
  }

  private String probe(String variable) throws IOException, InterruptedException {
    return StubLibraries.run(Probe.class, Map.of(variable, directory.toString()));
  }

  private static Path compile(Path target, int version) throws IOException, InterruptedException {
    String source = "int ncclGetVersion(int *version) { *version = " + version + "; return 0; }\n";
    return StubLibraries.compile(target, FILE, source);
  }
}
