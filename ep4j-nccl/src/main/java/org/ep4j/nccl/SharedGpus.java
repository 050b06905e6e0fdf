package org.ep4j.nccl;

import java.util.Map;
import org.ep4j.cuda.backend.BackendWorld;

/**
 * Whether ranks may share a GPU. NCCL serves one rank a GPU unless a variable says otherwise in
 * each process, which is for tests.
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

  /** Which two ranks cannot be served; empty if all can. Collective, and the same on all ranks. */
  static String objection(BackendWorld world) {
    int[] two = world.sharingDevice();
    // All ranks know who shares a GPU, so all ask, or none does.
    if (two == null || world.all(allowed())) {
      return "";
    }
    return "ranks %d and %d share a GPU, and NCCL serves one rank a GPU (2.30 and newer more, for tests, with %s=1 on all ranks): use as many GPUs as ranks"
        .formatted(two[0], two[1], VARIABLE);
  }
}
