package org.ep4j.nccl;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.stream.IntStream;
import org.ep4j.cuda.backend.BackendChoice;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.driver.CudaDevice;

/** Requirements of tests that not every machine meets; a test without them is skipped. */
final class Gpus {
  private static final int MAX = 4;

  private Gpus() {}

  /** Skips the test without the library or {@code gpus} GPUs. */
  static void require(int gpus) {
    assumeTrue(lacking(gpus).isEmpty(), () -> lacking(gpus));
  }

  /** The missing requirements; empty if none. */
  static String lacking(int gpus) {
    BackendProbe probe = new NcclBackendProvider().probe();
    return !probe.usable()
        ? probe.problem()
        : CudaDevice.count() < (SharedGpus.allowed() ? 1 : gpus)
            ? gpus + " GPUs are needed, this machine has " + CudaDevice.count() + ""
            : "";
  }

  /** Worlds with one GPU per rank, or more ranks if NCCL lets them share a GPU. */
  static IntStream worlds() {
    int max = SharedGpus.allowed() ? MAX : Math.max(2, CudaDevice.count());
    return IntStream.rangeClosed(2, Math.min(MAX, max));
  }

  /** Makes this backend the default, also in child processes. */
  static void choose() {
    System.setProperty(BackendChoice.PROPERTY, "nccl");
  }

  /** Resets the default. */
  static void chooseNot() {
    System.clearProperty(BackendChoice.PROPERTY);
  }
}
