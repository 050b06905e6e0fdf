package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.ep4j.conformance.world.StubLibraries;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.Backends;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.DriverFunction;
import org.ep4j.group.ThreadRanks;
import org.ep4j.memory.Participants;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** How several communicators of a rank end, over stub libraries of NCCL and of the driver. */
class NcclEndTest {
  private static final int COMMUNICATORS = 3;

  private static final String DRIVER =
      """
      int cuDriverGetVersion(int *out) { *out = 13000; return 0; }
      int cuDeviceGetCount(int *out) { *out = 1; return 0; }
      """;

  /** A communicator ends when all do. Each end prints its kind and how many were under way. */
  private static final String NCCL =
      """
      #include <stdio.h>
      #include <unistd.h>
      typedef struct { char bytes[128]; } Id;
      static volatile int inside;
      int ncclGetVersion(int *out) { *out = 22809; return 0; }
      int ncclCommInitRankConfig(void **out, int ranks, Id id, int rank, void *config) {
        *out = out;
        return 0;
      }
      int ncclCommGetAsyncError(void *comm, int *out) { *out = 0; return 0; }
      static int end(const char *how) {
        __sync_add_and_fetch(&inside, 1);
        for (int i = 0; i < 2000 && inside < 3; i++) {
          usleep(1000);
        }
        dprintf(1, "%s with %d\\n", how, inside);
        return 0;
      }
      int ncclCommFinalize(void *comm) { dprintf(1, "finalized\\n"); return 0; }
      int ncclCommDestroy(void *comm) { return end("destroyed"); }
      int ncclCommAbort(void *comm) { return end("aborted"); }
      const char *ncclGetErrorString(int code) { return "none"; }
      const char *ncclGetLastError(void *comm) { return ""; }
      """;

  @TempDir private Path directory;

  /** Opens communicators, and ends them at once. */
  static void run(boolean abandoned) {
    ThreadRanks.run(
        1,
        group -> {
          try (CudaDevice device = CudaDevice.open(0);
              Backend backend =
                  Backends.open(
                      "nccl", Participants.ofAll(group), device, Duration.ofSeconds(30))) {
            List<NcclCommunicator> opened = new ArrayList<>();
            for (int i = 0; i < COMMUNICATORS; i++) {
              opened.add(
                  NcclCommunicator.open(backend.world(), new byte[NcclLayouts.UNIQUE_ID_BYTES]));
            }
            if (abandoned) {
              opened.forEach(NcclCommunicator::abandon);
            }
            opened.forEach(NcclCommunicator::beginClose);
            opened.forEach(NcclCommunicator::endClose);
            System.out.println("all ended");
          }
        });
  }

  /** Communicators of a buffer that closes. */
  public static final class InOrder {
    private InOrder() {}

    /** Entry point. */
    public static void main(String... arguments) {
      run(false);
    }
  }

  /** Communicators of a buffer whose opening has failed. */
  public static final class Abandoned {
    private Abandoned() {}

    /** Entry point. */
    public static void main(String... arguments) {
      run(true);
    }
  }

  @Test
  void communicatorsEndAtOnce() throws IOException, InterruptedException {
    assertThat(said(InOrder.class))
        .containsExactly(
            "finalized",
            "finalized",
            "finalized",
            "destroyed with 3",
            "destroyed with 3",
            "destroyed with 3");
  }

  /** To finalize waits for the other ranks. */
  @Test
  void abandonedCommunicatorsAreAbortedAtOnce() throws IOException, InterruptedException {
    assertThat(said(Abandoned.class))
        .containsExactly("aborted with 3", "aborted with 3", "aborted with 3");
  }

  /** What the libraries printed before all had ended; the first lines may change their order. */
  private List<String> said(Class<?> main) throws IOException, InterruptedException {
    Path driver =
        StubLibraries.compile(
            directory,
            "libcuda.so.1",
            StubLibraries.withOthers(
                DRIVER, Arrays.stream(DriverFunction.values()).map(DriverFunction::symbol)));
    Path nccl =
        StubLibraries.compile(
            directory,
            "libnccl.so.2",
            StubLibraries.withOthers(
                NCCL, Arrays.stream(NcclFunction.values()).map(NcclFunction::symbol)));
    List<String> lines =
        StubLibraries.run(
                main,
                Map.of(
                    CudaDriver.LIBRARY_VARIABLE,
                    driver.toString(),
                    "EP4J_NCCL_HOME",
                    nccl.toString()))
            .lines()
            .toList();
    return lines.subList(0, lines.indexOf("all ended")).stream()
        .filter(line -> line.matches("finalized|(destroyed|aborted) with .*")) // no logs
        .sorted((a, b) -> Boolean.compare(!a.equals("finalized"), !b.equals("finalized")))
        .toList();
  }
}
