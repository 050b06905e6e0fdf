package org.ep4j.nvshmem;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import org.ep4j.conformance.world.StubLibraries;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.Backends;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.DriverFunction;
import org.ep4j.error.Ep4jException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.memory.Participants;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The heap of NVSHMEM has no memory left, over stub libraries of NVSHMEM and of the driver. */
class NvshmemMemoryTest {
  private static final int BYTES = 4096;

  private static final String DRIVER =
      """
      #include <stdio.h>
      int cuDriverGetVersion(int *out) { *out = 13000; return 0; }
      int cuDeviceGetCount(int *out) { *out = 1; return 0; }
      int cuDeviceGetName(char *out, int bytes, int device) { snprintf(out, bytes, "stub"); return 0; }
      int cuDeviceGetAttribute(int *out, int attribute, int device) { *out = 9; return 0; }
      int cuDeviceTotalMem_v2(size_t *out, int device) { *out = 80ul << 30; return 0; }
      int cuMemGetInfo_v2(size_t *available, size_t *total) { *available = 1024; *total = 80ul << 30; return 0; }
      """;

  private static final String NVSHMEM =
      """
      void nvshmemx_vendor_get_version_info(int *a, int *b, int *c) { *a = 3; *b = 4; *c = 5; }
      int nvshmemx_set_attr_uniqueid_args(int rank, int ranks, void *id, int *attributes) {
        attributes[10] = rank;
        attributes[11] = ranks;
        return 0;
      }
      int nvshmem_n_pes(void) { return 1; }
      """;

  @TempDir private Path directory;

  /** Prints what the rank reports. */
  public static final class Allocation {
    private Allocation() {}

    /** Entry point. */
    public static void main(String... arguments) {
      ThreadRanks.run(
          1,
          group -> {
            try (CudaDevice device = CudaDevice.open(0);
                Backend backend =
                    Backends.open(
                        "nvshmem", Participants.ofAll(group), device, Duration.ofSeconds(30))) {
              backend.world().together("the region", () -> backend.allocate(BYTES));
            } catch (Ep4jException e) {
              System.out.println(e.getMessage());
            }
          });
    }
  }

  @Test
  void missingMemoryIsReportedAsByOtherBackends() throws IOException, InterruptedException {
    Path driver =
        StubLibraries.compile(
            directory,
            "libcuda.so.1",
            StubLibraries.withOthers(
                DRIVER, Arrays.stream(DriverFunction.values()).map(DriverFunction::symbol)));
    Path nvshmem =
        StubLibraries.compile(
            directory,
            "libnvshmem_host.so.3",
            StubLibraries.withOthers(
                NVSHMEM, Arrays.stream(NvshmemFunction.values()).map(NvshmemFunction::symbol)));
    assertThat(
            StubLibraries.run(
                Allocation.class,
                Map.of(
                    CudaDriver.LIBRARY_VARIABLE,
                    driver.toString(),
                    "EP4J_NVSHMEM_HOME",
                    nvshmem.toString())))
        .containsPattern(
            "EP4J-6504: rank 0: the region cannot be prepared: nvshmem_align failed: 4096 bytes of"
                + " device 0 \\(stub\\) are wanted, 1024 of 85899345920 bytes of the GPU are"
                + " free; NVSHMEM_MAX_MEMORY_PER_GPU .*: lower highThroughput.maxTokens, ");
  }
}
