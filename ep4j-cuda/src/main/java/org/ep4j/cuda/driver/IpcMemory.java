package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.cuda.driver.calls.DriverLayouts;
import org.ep4j.cuda.driver.calls.MemoryCalls;
import org.ep4j.cuda.driver.calls.SharingCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;

/**
 * A mapping of memory that another process of this host allocated. A process cannot map its own
 * memory this way. The exporter keeps the memory until every importer has closed its mapping.
 */
public final class IpcMemory implements AutoCloseable {
  /** Bytes of a handle. */
  public static final int HANDLE_BYTES = 64;

  /**
   * What another process needs to map an address.
   *
   * @param handle {@link #HANDLE_BYTES} bytes that name the whole allocation
   * @param offset offset of the address in the allocation
   * @param bytes size of the allocation
   */
  public record Export(byte[] handle, long offset, long bytes) {}

  private final CudaDevice device;
  private final long address;
  private boolean closed;

  private IpcMemory(CudaDevice device, long address) {
    this.device = device;
    this.address = address;
  }

  /** The handle of memory of this process, for other processes. */
  public static byte[] export(DeviceMemory memory) {
    return export(memory.device(), memory.address()).handle();
  }

  /**
   * The handle of the allocation that contains an address of {@code device}, independent of its
   * allocator.
   */
  public static Export export(CudaDevice device, long address) {
    try (var _ = device.enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment range = arena.allocate(ValueLayout.JAVA_LONG, 2);
      MemoryCalls.addressRange(range.address(), range.address() + Long.BYTES, address);
      long base = range.getAtIndex(ValueLayout.JAVA_LONG, 0);
      MemorySegment handle = arena.allocate(DriverLayouts.IPC_HANDLE);
      SharingCalls.ipcHandle(handle.address(), base);
      return new Export(
          handle.toArray(ValueLayout.JAVA_BYTE),
          address - base,
          range.getAtIndex(ValueLayout.JAVA_LONG, 1));
    }
  }

  /**
   * Maps memory of another process for kernels of {@code device}. The memory may belong to another
   * device: peer access is enabled as needed.
   */
  public static IpcMemory open(CudaDevice device, byte[] handle) {
    if (handle.length != HANDLE_BYTES) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_HANDLE,
          "handle",
          handle.length + " bytes",
          HANDLE_BYTES + " bytes",
          "pass it as exported");
    }
    try (var _ = device.enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment copy = arena.allocate(DriverLayouts.IPC_HANDLE);
      copy.copyFrom(MemorySegment.ofArray(handle));
      return new IpcMemory(
          device,
          SharingCalls.openIpcHandle(copy, DriverConstants.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    }
  }

  /** First byte of the allocation. */
  public long address() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the peer memory on " + device + " is closed: create a new one");
    }
    return address;
  }

  /** Unmaps the memory. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      device.giveBack(() -> SharingCalls.closeIpcHandle(address));
    }
  }
}
