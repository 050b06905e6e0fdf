package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
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
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** NCCL allocates nothing on one of two ranks, over stub libraries of NCCL and of the driver. */
class NcclMemoryTest {
  private static final int BYTES = 4096;

  /** Two GPUs. */
  private static final String DRIVER =
      """
      #include <stdio.h>
      int cuDriverGetVersion(int *out) { *out = 13000; return 0; }
      int cuDeviceGetCount(int *out) { *out = 2; return 0; }
      int cuDeviceGet(int *out, int ordinal) { *out = ordinal; return 0; }
      int cuDeviceGetName(char *out, int bytes, int device) { snprintf(out, bytes, "stub"); return 0; }
      int cuDeviceGetPCIBusId(char *out, int bytes, int device) {
        snprintf(out, bytes, "0000:0%d:00.0", device + 1);
        return 0;
      }
      int cuDeviceGetAttribute(int *out, int attribute, int device) { *out = 9; return 0; }
      int cuDeviceTotalMem_v2(size_t *out, int device) { *out = TOTAL; return 0; }
      int cuMemGetInfo_v2(size_t *available, size_t *total) { *available = FREE; *total = TOTAL; return 0; }
      """;

  /** The second allocation fails. */
  private static final String NCCL =
      """
      typedef struct { char bytes[128]; } Id;
      int ncclGetVersion(int *out) { *out = 22809; return 0; }
      int ncclCommInitRankConfig(void **out, int ranks, Id id, int rank, void *config) {
        *out = out;
        return 0;
      }
      int ncclCommGetAsyncError(void *comm, int *out) { *out = 0; return 0; }
      int ncclMemAlloc(void **out, unsigned long bytes) {
        static int calls;
        *out = out;
        return __sync_add_and_fetch(&calls, 1) == 2;
      }
      const char *ncclGetErrorString(int code) { return "unhandled cuda error"; }
      const char *ncclGetLastError(void *comm) { return LAST; }
      """;

  @TempDir private Path directory;

  /** Prints what each rank reports. */
  public static final class Allocation {
    private Allocation() {}

    /** Entry point. */
    public static void main(String... arguments) {
      ThreadRanks.run(
          2,
          group -> {
            try (CudaDevice device = CudaDevice.open(group.rank());
                Backend backend =
                    Backends.open(
                        "nccl", Participants.ofAll(group), device, Duration.ofSeconds(30))) {
              backend.world().together("the region", () -> backend.allocate(BYTES));
            } catch (Ep4jException e) {
              System.out.println(e.getMessage());
            }
          });
    }
  }

  @ParameterizedTest
  @CsvSource({"0, ''", "1048576, Cuda failure 2 'out of memory'"})
  void missingMemoryIsToldToAllRanksAsByOtherBackends(long free, String last)
      throws IOException, InterruptedException {
    assertThat(reported(free, last))
        .hasSize(2)
        .allSatisfy(
            message ->
                assertThat(message)
                    .matches(
                        "EP4J-6108: rank [01]: the region cannot be prepared: ncclMemAlloc failed:"
                            + " .*; 4096 bytes of device [01] \\(stub\\) are wanted, "
                            + free
                            + " of 85899345920 bytes of the GPU are free: lower"
                            + " highThroughput.maxTokens, .*"))
        .satisfies(both -> assertThat(both.getFirst()).isEqualTo(both.getLast()));
  }

  @Test
  void anotherFailureIsToldToAllRanksWithTheRank() throws IOException, InterruptedException {
    assertThat(reported(1 << 20, "peer access is broken"))
        .hasSize(2)
        .allSatisfy(
            message ->
                assertThat(message)
                    .matches(
                        "EP4J-6400: rank [01]: the region cannot be prepared: ncclMemAlloc failed:"
                            + " .*peer access is broken.*"))
        .satisfies(both -> assertThat(both.getFirst()).isEqualTo(both.getLast()));
  }

  private List<String> reported(long free, String last) throws IOException, InterruptedException {
    Path driver =
        StubLibraries.compile(
            directory,
            "libcuda.so.1",
            StubLibraries.withOthers(
                DRIVER.replace("FREE", free + "ul").replace("TOTAL", "(80ul << 30)"),
                Arrays.stream(DriverFunction.values()).map(DriverFunction::symbol)));
    Path nccl =
        StubLibraries.compile(
            directory,
            "libnccl.so.2",
            StubLibraries.withOthers(
                NCCL.replace("LAST", '"' + last + '"'),
                Arrays.stream(NcclFunction.values()).map(NcclFunction::symbol)));
    String said =
        StubLibraries.run(
            Allocation.class,
            Map.of(
                CudaDriver.LIBRARY_VARIABLE, driver.toString(), "EP4J_NCCL_HOME", nccl.toString()));
    return said.lines().filter(line -> line.startsWith("EP4J-")).toList();
  }
}
