package org.ep4j.config;

import java.util.List;

/** Names of kinds of wire, for {@link BufferConfig.Builder#wire}. */
public final class WireName {
  /**
   * {@link #NCCL} with backend {@code nccl}; otherwise {@link #INPROC} for threads of one JVM,
   * {@link #SHM} for processes of one host, and between hosts {@link #VERBS} if all ranks reach
   * each other over active RDMA ports, else {@link #TCP}.
   */
  public static final String AUTO = "auto";

  /** Threads of one JVM. */
  public static final String INPROC = "inproc";

  /** Processes of one host, over shared memory. */
  public static final String SHM = "shm";

  /** Any hosts. */
  public static final String TCP = "tcp";

  /** RDMA devices; in module {@code ep4j-rdma}. */
  public static final String VERBS = "verbs";

  /** Any fabric that UCX supports; in module {@code ep4j-rdma}. */
  public static final String UCX = "ucx";

  /** GPUs, one per rank, over the networks of NCCL; in module {@code ep4j-nccl}. */
  public static final String NCCL = "nccl";

  /**
   * Connects GPUs of one host that are declared as several nodes; their kernels write to each other
   * through host memory. Only the CUDA engine supports it; {@link org.ep4j.wire.Wires} does not
   * open it.
   */
  public static final String STAGED = "staged";

  /**
   * Connects GPUs of several nodes by device functions of the buffer's backend, which kernels call
   * themselves. Only the CUDA engine supports it; {@link org.ep4j.wire.Wires} does not open it.
   */
  public static final String BACKEND = "backend";

  /** The names above. Providers on the module path or class path may add others. */
  public static final List<String> ALL =
      List.of(AUTO, INPROC, SHM, TCP, VERBS, UCX, NCCL, STAGED, BACKEND);

  private WireName() {}
}
