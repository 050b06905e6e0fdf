package org.ep4j.nvshmem;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.stream.IntStream;
import org.ep4j.cuda.backend.BackendChoice;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.driver.CudaDevice;

/** What these tests need that not every machine has; a test that asks in vain is skipped. */
final class Gpus {
  private static final int MOST = 4;

  /** NVSHMEM lets processes share a GPU: slow without MPS, so only where it is asked for. */
  private static final boolean SHARED = Boolean.getBoolean("ep4j.shareGpus");

  private Gpus() {}

  /** Skips the test where the library or so many GPUs are not. */
  static void require(int gpus) {
    assumeTrue(lacking(gpus).isEmpty(), () -> lacking(gpus));
  }

  /** What is not here; empty if everything is. */
  static String lacking(int gpus) {
    BackendProbe probe = new NvshmemBackendProvider().probe();
    return !probe.usable()
        ? probe.problem()
        : CudaDevice.count() < (SHARED ? 1 : gpus)
            ? gpus + " GPUs are needed, " + CudaDevice.count() + " are here"
            : "";
  }

  /** Worlds with a GPU a rank, or such as are to share them: evenly, or NVSHMEM does not start. */
  static IntStream worlds() {
    int gpus = Math.max(1, CudaDevice.count());
    int most = SHARED ? MOST : Math.max(2, gpus);
    return IntStream.rangeClosed(2, Math.min(MOST, most))
        .filter(ranks -> ranks <= gpus || !SHARED || ranks % gpus == 0);
  }

  /** Buffers that leave the choice open take this backend, in processes that are started too. */
  static void choose() {
    System.setProperty(BackendChoice.PROPERTY, "nvshmem");
  }

  /** No longer. */
  static void chooseNot() {
    System.clearProperty(BackendChoice.PROPERTY);
  }
}
