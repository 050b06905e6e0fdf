package org.ep4j.nccl;

import java.util.Map;
import org.ep4j.cuda.backend.BackendWorld;

/**
 * Whether ranks may share a GPU. NCCL serves one rank a GPU unless a variable says otherwise, which
 * is for tests: kernels of such ranks take turns.
 */
final class SharedGpus {
  static final String VARIABLE = "NCCL_MULTI_RANK_GPU_ENABLE";

  /** The first version that knows the variable: 2.30. */
  private static final int SINCE = 23000;

  private SharedGpus() {}

  /** Whether NCCL lets ranks of this process share their GPU. */
  static boolean allowed() {
    return allowed(NcclLibrary.version(), System.getenv());
  }

  static boolean allowed(int version, Map<String, String> environment) {
    return version >= SINCE && environment.getOrDefault(VARIABLE, "").equals("1");
  }

  /**
   * What the ranks tell each other as the version of NCCL: those that let ranks share a GPU and
   * those that do not are of different kinds, so that all ranks come to one answer.
   */
  static String version() {
    String version = NcclBackendProvider.text(NcclLibrary.version());
    return allowed() ? version + " with " + VARIABLE + "=1" : version;
  }

  /** Which two ranks cannot be served; empty if all can. The same on all ranks. */
  static String objection(BackendWorld world) {
    int[] two = world.sharingDevice();
    return two == null || allowed()
        ? ""
        : "ranks %d and %d share a GPU, and NCCL serves one rank a GPU (2.30 and newer more, for tests, with %s=1 on all ranks): use as many GPUs as ranks"
            .formatted(two[0], two[1], VARIABLE);
  }
}
