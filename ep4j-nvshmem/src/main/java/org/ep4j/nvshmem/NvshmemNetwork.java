package org.ep4j.nvshmem;

import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.driver.calls.NativeEnvironment;
import org.ep4j.error.ErrorCode;

/**
 * NVSHMEM's transport between hosts. NVSHMEM reads its variables once in a process, in its first
 * call, so the first world of the process decides.
 */
final class NvshmemNetwork {
  /** Variable of NVSHMEM. */
  static final String VARIABLE = "NVSHMEM_REMOTE_TRANSPORT";

  /** Value of the variable without which NVSHMEM looks for InfiniBand. */
  private static final String NONE = "none";

  /** Whether a world has decided; guarded by the class, as is the next field. */
  private static boolean decided;

  /** Whether ep4j has switched the transport off. */
  private static boolean off;

  private NvshmemNetwork() {}

  /**
   * Switches the transport off where all ranks are on one host, unless the user has chosen one: it
   * is not needed there, and NVSHMEM prints messages where it finds no adapter. Call it before
   * NVSHMEM's first function.
   *
   * @throws NvshmemException if the ranks are on several hosts and an earlier world has switched
   *     the transport off
   */
  static synchronized void choose(BackendWorld world) {
    boolean needed = world.spansHosts();
    if (!decided) {
      decided = true;
      off = !needed && System.getenv(VARIABLE) == null;
      if (off) {
        NativeEnvironment.setDefault(VARIABLE, NONE);
      }
    }
    if (off && needed) {
      throw new NvshmemException(
          ErrorCode.NVSHMEM_IN_USE,
          "NVSHMEM started in this process for ranks of one host and without a network, and cannot"
              + " serve ranks of several hosts: set "
              + VARIABLE
              + " (ibrc, for example) before the process starts, or open the buffer of several"
              + " hosts first");
    }
  }
}
