package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.cuda.driver.calls.DriverLayouts;
import org.ep4j.cuda.driver.calls.SharingCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;

/**
 * Memory of a device with its own address range, for sharing that plain allocations do not support:
 * by file descriptor, or over a multi-node NVLink fabric. Either allocated here or imported. Other
 * devices of this process use it after {@link #allowAccess}.
 */
public final class VmmMemory implements AutoCloseable {
  /** Bytes of a fabric handle. */
  public static final int FABRIC_HANDLE_BYTES = 64;

  /** How the memory can be shared. */
  public enum Sharing {
    /** Not shared with other processes. */
    NONE(DriverConstants.CU_MEM_HANDLE_TYPE_NONE),
    /** By a file descriptor, between processes of a host. */
    DESCRIPTOR(DriverConstants.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
    /** By a 64-byte handle, between hosts of an NVLink domain; needs the IMEX service. */
    FABRIC(DriverConstants.CU_MEM_HANDLE_TYPE_FABRIC);

    private final int code;

    Sharing(int code) {
      this.code = code;
    }
  }

  private static final long TYPE = offset("type");
  private static final long HANDLE_TYPES = offset("requestedHandleTypes");
  private static final long LOCATION_TYPE = offset("location.type");
  private static final long LOCATION_ID = offset("location.id");
  private static final long RDMA = offset("allocFlags.gpuDirectRDMACapable");

  private final CudaDevice device;
  private final long handle;
  private final long bytes;
  private final Sharing sharing;
  private final long address;
  private boolean closed;

  private VmmMemory(CudaDevice device, long handle, long bytes, Sharing sharing) {
    this.device = device;
    this.handle = handle;
    this.bytes = bytes;
    this.sharing = sharing;
    this.address = SharingCalls.reserve(bytes, 0, 0, 0);
  }

  /**
   * Allocates at least {@code bytes} bytes that {@code device} can use.
   *
   * @param rdma whether a network card reads and writes the memory
   */
  public static VmmMemory allocate(CudaDevice device, long bytes, Sharing sharing, boolean rdma) {
    DeviceMemory.checkSize(bytes);
    checkSupport(device, sharing);
    try (var _ = device.enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment properties = properties(arena, device, sharing, rdma);
      long unit =
          SharingCalls.granularity(
              properties.address(), DriverConstants.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
      long rounded = Math.multiplyExact(Math.ceilDiv(bytes, unit), unit);
      long handle;
      try {
        handle = SharingCalls.create(rounded, properties.address(), 0);
      } catch (CudaException e) {
        throw MissingMemory.ofDevice(e, device, rounded);
      }
      return mapped(device, handle, rounded, sharing);
    }
  }

  /**
   * Memory of another process.
   *
   * @param descriptor open in this process; remains owned by the caller
   * @param bytes {@link #bytes} at the exporter
   */
  public static VmmMemory importDescriptor(CudaDevice device, int descriptor, long bytes) {
    // The parameter is a pointer whose value is the descriptor number.
    return importFrom(device, descriptor, bytes, Sharing.DESCRIPTOR);
  }

  /**
   * Memory of another process, possibly of another host.
   *
   * @param fabricHandle {@link #exportFabric} of the exporter
   * @param bytes {@link #bytes} at the exporter
   */
  public static VmmMemory importFabric(CudaDevice device, byte[] fabricHandle, long bytes) {
    if (fabricHandle.length != FABRIC_HANDLE_BYTES) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_HANDLE,
          "fabricHandle",
          fabricHandle.length + " bytes",
          FABRIC_HANDLE_BYTES + " bytes",
          "pass it as exported");
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment copy = arena.allocate(FABRIC_HANDLE_BYTES, Long.BYTES);
      copy.copyFrom(MemorySegment.ofArray(fabricHandle));
      return importFrom(device, copy.address(), bytes, Sharing.FABRIC);
    }
  }

  private static VmmMemory importFrom(CudaDevice device, long shared, long bytes, Sharing sharing) {
    DeviceMemory.checkSize(bytes);
    try (var _ = device.enter()) {
      return mapped(device, SharingCalls.importHandle(shared, sharing.code), bytes, sharing);
    }
  }

  /** Maps a handle at a new address; releases everything if that fails. */
  private static VmmMemory mapped(CudaDevice device, long handle, long bytes, Sharing sharing) {
    VmmMemory memory;
    try {
      memory = new VmmMemory(device, handle, bytes, sharing);
    } catch (CudaException e) {
      SharingCalls.release(handle);
      throw e;
    }
    try {
      SharingCalls.map(memory.address, bytes, 0, handle, 0);
    } catch (CudaException e) {
      SharingCalls.freeAddresses(memory.address, bytes);
      SharingCalls.release(handle);
      throw e;
    }
    try {
      memory.allowAccess(device);
    } catch (CudaException e) {
      memory.close();
      throw e;
    }
    return memory;
  }

  private static void checkSupport(CudaDevice device, Sharing sharing) {
    DeviceProperties properties = device.properties();
    if ((sharing == Sharing.DESCRIPTOR && !properties.posixHandles())
        || (sharing == Sharing.FABRIC && !properties.fabricHandles())) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_SHARING_UNSUPPORTED,
          "sharing",
          sharing.name(),
          "what " + device + " supports",
          "use IpcMemory");
    }
  }

  private static MemorySegment properties(
      Arena arena, CudaDevice device, Sharing sharing, boolean rdma) {
    MemorySegment properties = arena.allocate(DriverLayouts.ALLOCATION_PROPERTIES);
    properties.set(ValueLayout.JAVA_INT, TYPE, DriverConstants.CU_MEM_ALLOCATION_TYPE_PINNED);
    properties.set(ValueLayout.JAVA_INT, HANDLE_TYPES, sharing.code);
    properties.set(
        ValueLayout.JAVA_INT, LOCATION_TYPE, DriverConstants.CU_MEM_LOCATION_TYPE_DEVICE);
    properties.set(ValueLayout.JAVA_INT, LOCATION_ID, device.ordinal());
    properties.set(ValueLayout.JAVA_BYTE, RDMA, (byte) (rdma ? 1 : 0));
    return properties;
  }

  /** Lets kernels of {@code user} load and store the memory. */
  public void allowAccess(CudaDevice user) {
    try (var _ = user.enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment description = arena.allocate(DriverLayouts.ACCESS_DESCRIPTION);
      description.set(ValueLayout.JAVA_INT, 0, DriverConstants.CU_MEM_LOCATION_TYPE_DEVICE);
      description.set(ValueLayout.JAVA_INT, 4, user.ordinal());
      description.set(ValueLayout.JAVA_INT, 8, DriverConstants.CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      SharingCalls.setAccess(address(), bytes, description.address(), 1);
    }
  }

  /** A new file descriptor for the memory; the caller closes it. */
  public int exportDescriptor() {
    requireSharing(Sharing.DESCRIPTOR);
    try (var _ = device.enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      SharingCalls.exportHandle(out.address(), handle, sharing.code, 0);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  /** A handle for other processes of the NVLink domain. */
  public byte[] exportFabric() {
    requireSharing(Sharing.FABRIC);
    try (var _ = device.enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(FABRIC_HANDLE_BYTES, Long.BYTES);
      SharingCalls.exportHandle(out.address(), handle, sharing.code, 0);
      return out.toArray(ValueLayout.JAVA_BYTE);
    }
  }

  /**
   * Exports the memory as a dma-buf: a file descriptor by which a network card can register it; the
   * caller closes the descriptor.
   */
  public int exportDmaBuf() {
    try (var _ = device.enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      SharingCalls.rangeHandle(
          out.address(), address(), bytes, DriverConstants.CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  private void requireSharing(Sharing wanted) {
    checkOpen();
    if (sharing != wanted) {
      throw new IllegalUseException(
          ErrorCode.CUDA_SHARING_MODE,
          "the memory was allocated with Sharing." + sharing + ": allocate it with " + wanted);
    }
  }

  /** First byte. */
  public long address() {
    checkOpen();
    return address;
  }

  /** Size, rounded up to the device's granularity. */
  public long bytes() {
    return bytes;
  }

  private void checkOpen() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the memory of " + device + " is closed: create a new one");
    }
  }

  /** Unmaps the memory; the driver frees it after the last process has unmapped it. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      device.giveBack(
          () -> {
            try {
              SharingCalls.unmap(address, bytes);
              SharingCalls.freeAddresses(address, bytes);
            } finally {
              SharingCalls.release(handle);
            }
          });
    }
  }

  private static long offset(String field) {
    return DriverLayouts.offset(DriverLayouts.ALLOCATION_PROPERTIES, field);
  }
}
