package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import org.ep4j.conformance.world.StubLibraries;
import org.ep4j.cuda.driver.calls.NvmlCalls;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What stands in for the management library decides which domain a device is in. */
class NvlinkDomainTest {
  /** Prints the domain of a device. */
  public static final class Main {
    private Main() {}

    @SuppressWarnings("SystemOut")
    public static void main(String[] arguments) {
      System.out.println(NvlinkDomain.of(System.getenv().getOrDefault("BUS", "0000:01:00.0")));
    }
  }

  private static String domain(Path library, String bus) throws IOException, InterruptedException {
    return StubLibraries.run(
        Main.class, Map.of(NvmlCalls.LIBRARY_VARIABLE, library.toString(), "BUS", bus));
  }

  private static String domain(Path directory, String name, String source)
      throws IOException, InterruptedException {
    return domain(StubLibraries.compile(directory, name, source), "0000:01:00.0");
  }

  @Test
  void aDomainIsAClusterAndAClique(@TempDir Path directory) throws Exception {
    assertThat(domain(directory, "libdomain.so", ManagementStub.source("")))
        .contains("name=" + "ab".repeat(16) + ".32766, problem=]");
  }

  @Test
  void otherwiseTheReasonIsThere(@TempDir Path directory) throws Exception {
    assertThat(
            domain(directory, "libzero.so", ManagementStub.source("memset(info->cluster, 0, 16);")))
        .contains("name=, problem=the GPU's NVLink fabric is that of its host");
    assertThat(domain(directory, "libstate.so", ManagementStub.source("info->state = 2;")))
        .contains("name=, problem=the GPU is not registered", "(state 2)");
    assertThat(domain(directory, "libstatus.so", ManagementStub.source("info->status = 999;")))
        .contains("name=, problem=", "failed with 999");
    assertThat(domain(directory, "libcode.so", ManagementStub.source("return 3;")))
        .contains("name=, problem=nvmlDeviceGetGpuFabricInfoV returned 3");
    assertThat(domain(directory, "libold.so", "int nvmlInit_v2(void) { return 0; }"))
        .contains("name=, problem=", "driver 550 or newer");
    assertThat(domain(directory.resolve("libnone.so"), "0000:01:00.0"))
        .contains("name=, problem=there is no " + directory.resolve("libnone.so"));
    Path known = StubLibraries.compile(directory, "libbus.so", ManagementStub.source(""));
    assertThat(domain(known, "missing"))
        .contains("name=, problem=nvmlDeviceGetHandleByPciBusId_v2 returned 6 for missing");
  }
}
