package org.ep4j.nvshmem;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.stream.IntStream;
import org.ep4j.cuda.backend.BackendChoice;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.driver.CudaDevice;

/** Requirements of tests that not every machine meets; a test without them is skipped. */
final class Gpus {
  private static final int MAX = 4;

  /** NVSHMEM lets processes share a GPU: slow without MPS, so only on request. */
  private static final boolean SHARED = Boolean.getBoolean("ep4j.shareGpus");

  private Gpus() {}

  /** Skips the test without the library or {@code gpus} GPUs. */
  static void require(int gpus) {
    assumeTrue(lacking(gpus).isEmpty(), () -> lacking(gpus));
  }

  /** The missing requirements; empty if none. */
  static String lacking(int gpus) {
    BackendProbe probe = new NvshmemBackendProvider().probe();
    return !probe.usable()
        ? probe.problem()
        : CudaDevice.count() < (SHARED ? 1 : gpus)
            ? gpus + " GPUs are needed, this machine has " + CudaDevice.count() + ""
            : "";
  }

  /** Worlds with one GPU per rank, or with evenly shared GPUs, as NVSHMEM requires. */
  static IntStream worlds() {
    int gpus = Math.max(1, CudaDevice.count());
    int max = SHARED ? MAX : Math.max(2, gpus);
    return IntStream.rangeClosed(2, Math.min(MAX, max))
        .filter(ranks -> ranks <= gpus || !SHARED || ranks % gpus == 0);
  }

  /** Makes this backend the default, also in child processes. */
  static void choose() {
    System.setProperty(BackendChoice.PROPERTY, "nvshmem");
  }

  /** Resets the default. */
  static void chooseNot() {
    System.clearProperty(BackendChoice.PROPERTY);
  }
}
