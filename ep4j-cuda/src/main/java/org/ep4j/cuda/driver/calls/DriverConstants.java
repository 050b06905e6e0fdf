package org.ep4j.cuda.driver.calls;

/** Constants of the driver API under their names there; a test compares them with the header. */
public final class DriverConstants {
  public static final int CUDA_SUCCESS = 0;
  static final int CUDA_ERROR_OUT_OF_MEMORY = 2;
  static final int CUDA_ERROR_NO_DEVICE = 100;
  public static final int CUDA_ERROR_NO_BINARY_FOR_GPU = 209;
  public static final int CUDA_ERROR_NOT_READY = 600;
  public static final int CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704;
  static final int CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900;

  public static final int CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13;
  public static final int CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16;
  public static final int CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38;
  public static final int CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39;
  public static final int CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75;
  public static final int CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76;
  public static final int CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81;
  public static final int CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95;
  public static final int CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97;
  public static final int CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103;
  public static final int CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING = 118;
  public static final int CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120;
  public static final int CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124;
  public static final int CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128;
  public static final int CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134;

  public static final int CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 3;

  public static final int CU_MEMHOSTALLOC_PORTABLE = 1;
  public static final int CU_MEMHOSTALLOC_DEVICEMAP = 2;
  public static final int CU_MEMHOSTREGISTER_PORTABLE = 1;
  public static final int CU_MEMHOSTREGISTER_DEVICEMAP = 2;

  public static final int CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2;
  public static final int CU_POINTER_ATTRIBUTE_IS_MANAGED = 8;
  public static final int CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9;
  public static final int CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11;
  public static final int CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12;

  public static final int CU_STREAM_NON_BLOCKING = 1;
  public static final int CU_EVENT_DEFAULT = 0;
  public static final int CU_EVENT_DISABLE_TIMING = 2;
  public static final int CU_STREAM_CAPTURE_STATUS_NONE = 0;
  static final int CU_STREAM_CAPTURE_MODE_RELAXED = 2;

  public static final int CU_JIT_ERROR_LOG_BUFFER = 5;
  public static final int CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6;

  public static final int CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0;
  public static final int CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1;
  public static final int CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3;
  public static final int CU_FUNC_ATTRIBUTE_NUM_REGS = 4;
  public static final int CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6;
  public static final int CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;

  public static final int CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2;
  public static final int CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4;
  public static final int CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6;

  public static final int CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1;
  public static final int CU_MEM_HANDLE_TYPE_NONE = 0;
  public static final int CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1;
  public static final int CU_MEM_HANDLE_TYPE_FABRIC = 8;

  public static final int CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1;

  public static final int CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER = 100;
  public static final int CU_MEM_ALLOCATION_TYPE_PINNED = 1;
  public static final int CU_MEM_LOCATION_TYPE_DEVICE = 1;
  public static final int CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3;
  public static final int CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1;

  private DriverConstants() {}
}
