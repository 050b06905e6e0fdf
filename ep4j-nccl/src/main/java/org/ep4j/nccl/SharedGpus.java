package org.ep4j.nccl;

import java.util.Map;
import org.ep4j.cuda.backend.BackendWorld;

/**
 * Whether ranks may share a GPU. NCCL serves one rank per GPU unless a variable, intended for tests, allows more in each process.
 */
final class SharedGpus {
  static final String VARIABLE = "NCCL_MULTI_RANK_GPU_ENABLE";

  /** The first version with the variable: 2.30. */
  private static final int SINCE = 23000;

  private SharedGpus() {}

  /** Whether NCCL lets ranks of this process share their GPU. */
  static boolean allowed() {
    return allowed(NcclLibrary.version(), System.getenv());
  }

  static boolean allowed(int version, Map<String, String> environment) {
    return version >= SINCE && environment.getOrDefault(VARIABLE, "").equals("1");
  }

  /** The objection to two ranks that share a GPU; empty if none. Collective, and the same on all ranks. */
  static String objection(BackendWorld world) {
    int[] two = world.sharingDevice();
    // All ranks know which ranks share a GPU, so all or none start the exchange.
    if (two == null || world.all(allowed())) {
      return "";
    }
    return "ranks %d and %d share a GPU, but NCCL serves one rank per GPU (2.30 and newer serve more, for tests, with %s=1 on all ranks): use as many GPUs as ranks"
        .formatted(two[0], two[1], VARIABLE);
  }
}
