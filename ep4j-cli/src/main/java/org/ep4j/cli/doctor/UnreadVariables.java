package org.ep4j.cli.doctor;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.ep4j.engine.RenamedVariables;

/** Variables that look like settings of ep4j but have no effect, for example misspelled names. */
final class UnreadVariables {
  private static final String PREFIX = "EP4J_";

  /** The settings in {@code docs/configuration.md}; a test compares. */
  static final Set<String> SETTINGS =
      Set.of(
          "EP4J_BACKEND",
          "EP4J_CUBLAS",
          "EP4J_CUDA_CACHE",
          "EP4J_CUDA_CACHE_MB",
          "EP4J_CUDA_DEVICE",
          "EP4J_CUDA_DRIVER",
          "EP4J_CUDA_LL_PACKETS",
          "EP4J_CUDA_PREBUILT",
          "EP4J_CUDA_SPECIALIZE",
          "EP4J_DEBUG",
          "EP4J_DEEPEP_ZERO_COPY",
          "EP4J_HEAP",
          "EP4J_HEARTBEAT_MS",
          "EP4J_HOME",
          "EP4J_IB_GID_INDEX",
          "EP4J_IB_GPUDIRECT",
          "EP4J_IB_HCA",
          "EP4J_IB_LIBRARY",
          "EP4J_IB_QPS_PER_PORT",
          "EP4J_IB_QP_DEPTH",
          "EP4J_IB_RETRY_COUNT",
          "EP4J_IB_SL",
          "EP4J_IB_TIMEOUT",
          "EP4J_IB_TRAFFIC_CLASS",
          "EP4J_JAVA_HOME",
          "EP4J_JOB",
          "EP4J_JOB_FILES",
          "EP4J_JOIN_TIMEOUT_MS",
          "EP4J_JVM_OPTIONS",
          "EP4J_LIVENESS_MS",
          "EP4J_LOCAL_RANK",
          "EP4J_MAX_TOKENS",
          "EP4J_NCCL_GIN_COMMS",
          "EP4J_NCCL_GIN_CONTEXTS",
          "EP4J_NCCL_HOME",
          "EP4J_NVCC",
          "EP4J_NVJITLINK",
          "EP4J_NVML_LIBRARY",
          "EP4J_NVRTC",
          "EP4J_NVSHMEM_HOME",
          "EP4J_PROXY_CORES",
          "EP4J_PROXY_THREADS",
          "EP4J_RANK",
          "EP4J_RANKS_PER_NODE",
          "EP4J_RENDEZVOUS",
          "EP4J_RENDEZVOUS_EXTERNAL",
          "EP4J_RESTART",
          "EP4J_SECRET",
          "EP4J_SHM_DIR",
          "EP4J_UCX_LIBRARY",
          "EP4J_WIRE",
          "EP4J_WIRE_BYTES_IN_FLIGHT",
          "EP4J_WIRE_CONNECTIONS",
          "EP4J_WIRE_ENCRYPTED",
          "EP4J_WIRE_LANES",
          "EP4J_WIRE_OPERATIONS_IN_FLIGHT",
          "EP4J_WIRE_TIMEOUT_MS",
          "EP4J_WORLD_SIZE");

  /** Variables of tests, and of the command line for its own ranks. */
  private static final Set<String> OTHERS =
      Set.of("EP4J_VECTORS", "EP4J_RELAY_PROGRESS", "EP4J_NVDISASM");

  private UnreadVariables() {}

  static List<String> of(Map<String, String> environment) {
    return environment.keySet().stream()
        .filter(name -> name.startsWith(PREFIX) && !name.startsWith(PREFIX + "TEST_"))
        .filter(name -> !SETTINGS.contains(name) && !OTHERS.contains(name))
        .filter(name -> RenamedVariables.newName(name) == null)
        .sorted()
        .toList();
  }
}
