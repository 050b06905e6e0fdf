package org.ep4j.nccl;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.stream.IntStream;
import org.ep4j.cuda.backend.BackendChoice;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.driver.CudaDevice;

/** What these tests need that not every machine has; a test that asks in vain is skipped. */
final class Gpus {
  private static final int MOST = 4;

  private Gpus() {}

  /** Skips the test where the library or so many GPUs are not. */
  static void require(int gpus) {
    assumeTrue(lacking(gpus).isEmpty(), () -> lacking(gpus));
  }

  /** What is not here; empty if everything is. */
  static String lacking(int gpus) {
    BackendProbe probe = new NcclBackendProvider().probe();
    return !probe.usable()
        ? probe.problem()
        : CudaDevice.count() < (SharedGpus.allowed() ? 1 : gpus)
            ? gpus + " GPUs are needed, " + CudaDevice.count() + " are here"
            : "";
  }

  /** Worlds with a GPU a rank, or such as NCCL lets share one. */
  static IntStream worlds() {
    int most = SharedGpus.allowed() ? MOST : Math.max(2, CudaDevice.count());
    return IntStream.rangeClosed(2, Math.min(MOST, most));
  }

  /** Buffers that leave the choice open take this backend, in processes that are started too. */
  static void choose() {
    System.setProperty(BackendChoice.PROPERTY, "nccl");
  }

  /** No longer. */
  static void chooseNot() {
    System.clearProperty(BackendChoice.PROPERTY);
  }
}
