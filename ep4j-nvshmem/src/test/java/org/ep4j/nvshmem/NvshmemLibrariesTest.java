package org.ep4j.nvshmem;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import org.ep4j.conformance.world.StubLibraries;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Libraries that can be loaded but not used, and variables that are set before the load. */
class NvshmemLibrariesTest {
  private static final String VERSION =
      "void nvshmemx_vendor_get_version_info(int *a, int *b, int *c) {";

  @TempDir private Path directory;

  /** Prints the result of the probe, and the transport of puts. */
  public static final class Probe {
    private Probe() {}

    /** Entry point. */
    public static void main(String... arguments) {
      System.out.println(new NvshmemBackendProvider().probe());
      System.out.println(new NvshmemBackendProvider().puts());
    }
  }

  @Test
  void libraryOfAnotherMajorVersionIsReportedWithItsVersion()
      throws IOException, InterruptedException {
    StringBuilder source = new StringBuilder(VERSION + " *a = 2; *b = 11; *c = 0; }\n");
    for (NvshmemFunction function : NvshmemFunction.values()) {
      if (function != NvshmemFunction.VERSION) {
        source.append("void ").append(function.symbol()).append("(void) {}\n");
      }
    }
    assertThat(probe(source.toString(), Map.of())).contains("is NVSHMEM 2.11.0, too old");
  }

  @Test
  void libraryWithoutItsFunctionsIsReportedWithTheirNames()
      throws IOException, InterruptedException {
    String source = VERSION + " *a = 3; *b = 4; *c = 5; }\n";
    assertThat(probe(source, Map.of())).contains("lacks nvshmemx_get_uniqueid, ");
  }

  /** Only puts of kernels need modules. */
  @Test
  void aLibraryWithoutModulesServesBuffersAsBefore() throws IOException, InterruptedException {
    StringBuilder source = new StringBuilder(VERSION + " *a = 3; *b = 0; *c = 6; }\n");
    for (NvshmemFunction function : NvshmemFunction.values()) {
      if (function != NvshmemFunction.VERSION && !function.optional()) {
        source.append("void ").append(function.symbol()).append("(void) {}\n");
      }
    }
    assertThat(probe(source.toString(), Map.of()))
        .doesNotContain("lacks")
        .contains("between nodes the proxy (")
        .contains("no nvshmemx_cumodule_init");
  }

  @Test
  void defaultsAreSetBeforeTheLibraryIsLoaded() throws IOException, InterruptedException {
    String source =
        "#include <stdio.h>\n#include <stdlib.h>\n"
            + "__attribute__((constructor)) static void tell(void) {\n"
            + "  printf(\"%s %s %s\\n\", getenv(\"NVSHMEM_REMOTE_TRANSPORT\"),\n"
            + "    getenv(\"NVSHMEM_DISABLE_NVLS\"), getenv(\"NVSHMEM_DISABLE_NCCL\"));\n"
            + "}\n";
    assertThat(probe(source, Map.of())).contains("(null) 1 1");
    assertThat(probe(source, Map.of("NVSHMEM_DISABLE_NVLS", "0"))).contains("(null) 0 1");
  }

  private String probe(String source, Map<String, String> variables)
      throws IOException, InterruptedException {
    Path library = StubLibraries.compile(directory, "libnvshmem_host.so.3", source);
    Map<String, String> all = new TreeMap<>(variables);
    all.put("EP4J_NVSHMEM_HOME", library.toString());
    return StubLibraries.run(Probe.class, all);
  }
}
