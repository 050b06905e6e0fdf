package org.ep4j.config;

import java.util.List;

/** Names of backends between GPUs, for {@link BufferConfig.Builder#backend}. */
public final class BackendName {
  /** The backend that a property or variable names, otherwise {@link #DIRECT}. */
  public static final String AUTO = "auto";

  /** Needs only the CUDA driver. */
  public static final String DIRECT = "direct";

  /** NCCL; in module {@code ep4j-nccl}. */
  public static final String NCCL = "nccl";

  /** NVSHMEM; in module {@code ep4j-nvshmem}. */
  public static final String NVSHMEM = "nvshmem";

  /** The names above. Providers on the module path or class path may add others. */
  public static final List<String> ALL = List.of(AUTO, DIRECT, NCCL, NVSHMEM);

  private BackendName() {}
}
