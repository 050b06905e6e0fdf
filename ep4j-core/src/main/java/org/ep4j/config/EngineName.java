package org.ep4j.config;

import java.util.List;

/** Names of engines, for {@link BufferConfig.Builder#engine}. */
public final class EngineName {
  /** {@link #CUDA} where there is a GPU and the engine has all configured operations. */
  public static final String AUTO = "auto";

  /** Runs on every machine; results are in host memory. */
  public static final String HOST = "host";

  /** Runs on NVIDIA GPUs; in module {@code ep4j-cuda}. */
  public static final String CUDA = "cuda";

  /** The names above. Providers on the module path or class path may add others. */
  public static final List<String> ALL = List.of(AUTO, HOST, CUDA);

  private EngineName() {}
}
