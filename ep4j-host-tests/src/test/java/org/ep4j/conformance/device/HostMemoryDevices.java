package org.ep4j.conformance.device;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.engine.DeviceAccess;
import org.ep4j.tensor.Tensor;

/**
 * Devices whose memory is host memory, at the same addresses: for tests of device tensors without a
 * device.
 */
public final class HostMemoryDevices implements DeviceAccess {
  private static final int DEVICES = 2;
  private static final Map<Long, Allocation> ALLOCATIONS = new ConcurrentHashMap<>();

  private static final AtomicLong COPIED_TO_HOST = new AtomicLong();
  private static final AtomicLong COPIED_FROM_HOST = new AtomicLong();

  private record Allocation(int device, Arena arena) {}

  /** Used by {@link java.util.ServiceLoader}. */
  public HostMemoryDevices() {}

  /** Bytes that this JVM has copied from devices so far, and to them. */
  static long[] copiedBytes() {
    return new long[] {COPIED_TO_HOST.get(), COPIED_FROM_HOST.get()};
  }

  /** A device tensor over the memory of a native host tensor. */
  static Tensor onDevice(int device, Tensor tensor) {
    return Tensor.ofDevice(tensor.address(), device, tensor.dtype(), tensor.shape());
  }

  /** The host tensor over the memory of a device tensor. */
  static Tensor onHost(Tensor tensor) {
    if (!tensor.onDevice()) {
      return tensor;
    }
    MemorySegment bytes = memory(tensor.address(), tensor.byteSize());
    return Tensor.of(bytes, tensor.dtype(), tensor.shape());
  }

  @SuppressWarnings("restricted") // the addresses are of live memory
  private static MemorySegment memory(long address, long bytes) {
    return MemorySegment.ofAddress(address).reinterpret(bytes);
  }

  @Override
  public int devices() {
    return DEVICES;
  }

  /** Knows the first byte of each allocation alone. */
  @Override
  public OptionalInt deviceOf(long address) {
    Allocation allocation = ALLOCATIONS.get(address);
    return allocation == null ? OptionalInt.empty() : OptionalInt.of(allocation.device());
  }

  @Override
  public long allocate(int device, long bytes) {
    Arena arena = Arena.ofShared();
    long address = arena.allocate(bytes, 256).address();
    ALLOCATIONS.put(address, new Allocation(device, arena));
    return address;
  }

  @Override
  public void free(int device, long address) {
    Objects.requireNonNull(ALLOCATIONS.remove(address), "not allocated, or freed twice")
        .arena()
        .close();
  }

  @Override
  public void copyToHost(int device, long address, MemorySegment target) {
    COPIED_TO_HOST.addAndGet(target.byteSize());
    target.copyFrom(memory(address, target.byteSize()));
  }

  @Override
  public void copyFromHost(int device, long address, MemorySegment source) {
    COPIED_FROM_HOST.addAndGet(source.byteSize());
    memory(address, source.byteSize()).copyFrom(source);
  }
}
