package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.ConcurrentHashMap;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.driver.calls.DeviceCalls;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Properties of a device. Reading them needs no context and allocates no device memory.
 *
 * @param ordinal number of the device in this process
 * @param name product name
 * @param pciBusId {@code domain:bus:device.function}
 * @param major compute capability, first part
 * @param minor compute capability, second part
 * @param multiprocessors number of SMs
 * @param sharedBytesPerBlock largest shared memory of a block
 * @param sharedBytesPerMultiprocessor shared memory of an SM
 * @param threadsPerMultiprocessor resident threads of an SM
 * @param l2Bytes size of the L2 cache
 * @param memoryBytes size of the memory
 * @param clockKilohertz highest SM clock, 0 if the driver does not report it
 * @param cooperativeLaunch whether the blocks of a launch can synchronise
 * @param clusterLaunch whether blocks can form clusters
 * @param posixHandles whether memory can be shared by file descriptors
 * @param fabricHandles whether memory can be shared between hosts over NVLink
 * @param dmaBuf whether memory can be registered with a network card as dma-buf
 * @param ordersRemoteWrites whether a kernel that the host notifies sees earlier writes of a
 *     network card into memory of this device
 * @param numaNode nearest NUMA node of the host, -1 if unknown
 */
public record DeviceProperties(
    int ordinal,
    String name,
    String pciBusId,
    int major,
    int minor,
    int multiprocessors,
    int sharedBytesPerBlock,
    int sharedBytesPerMultiprocessor,
    int threadsPerMultiprocessor,
    int l2Bytes,
    long memoryBytes,
    int clockKilohertz,
    boolean cooperativeLaunch,
    boolean clusterLaunch,
    boolean posixHandles,
    boolean fabricHandles,
    boolean dmaBuf,
    boolean ordersRemoteWrites,
    int numaNode) {
  private static final int TEXT_BYTES = 256;

  /** First compute capability with an architecture-specific instruction set, {@code sm_90a}. */
  private static final int FIRST_SPECIFIC_MAJOR = 9;

  /**
   * By ordinal. Properties do not change during the life of a process; tensor copies read them on
   * each call.
   */
  private static final ConcurrentHashMap<Integer, DeviceProperties> KNOWN =
      new ConcurrentHashMap<>();

  /** The properties of the device with this ordinal, read once. */
  public static DeviceProperties of(int ordinal) {
    CudaDriver.require();
    DeviceProperties known = KNOWN.get(ordinal);
    return known != null ? known : KNOWN.computeIfAbsent(ordinal, DeviceProperties::read);
  }

  private static DeviceProperties read(int ordinal) {
    int device = DeviceCalls.device(checked(ordinal));
    return new DeviceProperties(
        ordinal,
        name(device),
        busId(device),
        value(device, DriverConstants.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        value(device, DriverConstants.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        value(device, DriverConstants.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        value(device, DriverConstants.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        value(device, DriverConstants.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        value(device, DriverConstants.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
        value(device, DriverConstants.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        DeviceCalls.totalMemory(device),
        valueOr(device, DriverConstants.CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 0),
        value(device, DriverConstants.CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) != 0,
        valueOr(device, DriverConstants.CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0) != 0,
        valueOr(
                device,
                DriverConstants.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                0)
            != 0,
        valueOr(device, DriverConstants.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0) != 0,
        valueOr(device, DriverConstants.CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0) != 0,
        valueOr(device, DriverConstants.CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 0)
            >= DriverConstants.CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER,
        valueOr(device, DriverConstants.CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1));
  }

  /** Compute capability as text, for example {@code 9.0}. */
  public String computeCapability() {
    return major + "." + minor;
  }

  /**
   * Architecture to compile for: {@code sm_80}; from compute capability 9.0 on the
   * architecture-specific name {@code sm_90a}.
   */
  public String architecture() {
    return "sm_" + major + minor + (major >= FIRST_SPECIFIC_MAJOR ? "a" : "");
  }

  /**
   * Whether kernels copy by the tensor memory accelerator, as {@code EP4J_TMA} in {@code ptx.cuh}.
   */
  public boolean hasBulkCopies() {
    return major >= FIRST_SPECIFIC_MAJOR;
  }

  static int checked(int ordinal) {
    int count = DeviceCalls.count();
    if (ordinal < 0 || ordinal >= count) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_DEVICE,
          "device",
          String.valueOf(ordinal),
          "0.." + (count - 1),
          "this process sees " + count + " devices (CUDA_VISIBLE_DEVICES)");
    }
    return ordinal;
  }

  private static int value(int device, int attribute) {
    return DeviceCalls.attribute(attribute, device);
  }

  /** Value of an attribute that older drivers do not know. */
  private static int valueOr(int device, int attribute, int otherwise) {
    try {
      return value(device, attribute);
    } catch (CudaException e) {
      return otherwise;
    }
  }

  private static String name(int device) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment text = arena.allocate(TEXT_BYTES);
      DeviceCalls.name(text.address(), TEXT_BYTES, device);
      return text.getString(0);
    }
  }

  private static String busId(int device) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment text = arena.allocate(TEXT_BYTES);
      DeviceCalls.pciBusId(text.address(), TEXT_BYTES, device);
      return text.getString(0);
    }
  }
}
