package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A device whose primary context this object holds: the context that the CUDA runtime and other
 * libraries use too, so that their pointers and streams are valid here. It is closed after
 * everything that was made on it.
 */
public final class CudaDevice implements AutoCloseable {
  /** Contexts in which nothing is given back any more; those that hold them keep them alive. */
  private static final Set<Long> HELD = ConcurrentHashMap.newKeySet();

  private final DeviceProperties properties;
  private final int handle;
  private final long context;
  private boolean closed;

  private CudaDevice(DeviceProperties properties, int handle, long context) {
    this.properties = properties;
    this.handle = handle;
    this.context = context;
  }

  /** Number of devices; 0 where the driver cannot be used. */
  public static int count() {
    return CudaDriver.deviceCount();
  }

  /**
   * Opens a device.
   *
   * @throws org.ep4j.EngineUnavailableException if the driver cannot be used here
   * @throws org.ep4j.InvalidArgumentException if there is no such device
   */
  public static CudaDevice open(int ordinal) {
    DeviceProperties properties = DeviceProperties.of(ordinal);
    int handle = DeviceCalls.device(ordinal);
    return new CudaDevice(properties, handle, DeviceCalls.retainPrimaryContext(handle));
  }

  /** Whether kernels on device {@code from} can load and store memory of device {@code to}. */
  public static boolean canAccess(int from, int to) {
    CudaDriver.require();
    return from == to
        || DeviceCalls.canAccessPeer(
                DeviceCalls.device(DeviceProperties.checked(from)),
                DeviceCalls.device(DeviceProperties.checked(to)))
            != 0;
  }

  /**
   * Whether NVLink joins this device with the one of a bus address of this host. False, too, if
   * this process cannot see that device, as CUDA_VISIBLE_DEVICES may have it.
   */
  public boolean isLinked(String pciBusId) {
    for (int i = 0; i < count(); i++) {
      if (DeviceProperties.of(i).pciBusId().equals(pciBusId)) {
        return areLinked(ordinal(), i);
      }
    }
    return false;
  }

  /** Whether NVLink joins two devices. */
  public static boolean areLinked(int from, int to) {
    CudaDriver.require();
    // What tells it from PCIe: GPUs do atomics on each other's memory.
    return from == to
        || DeviceCalls.peerAttribute(
                DriverConstants.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                DeviceCalls.device(DeviceProperties.checked(from)),
                DeviceCalls.device(DeviceProperties.checked(to)))
            != 0;
  }

  /** Number of the device in this process. */
  public int ordinal() {
    return properties.ordinal();
  }

  /** What the device is. */
  public DeviceProperties properties() {
    return properties;
  }

  /** What to compile for, {@code sm_90a}. */
  public String architecture() {
    return properties.architecture();
  }

  /** The primary context, a CUcontext. */
  public long context() {
    checkOpen();
    return context;
  }

  /** Makes the context current for the calling thread, for good. Allocates nothing. */
  public void makeCurrent() {
    DeviceCalls.setCurrent(context());
  }

  /** Whether kernels here can load and store memory of {@code peer}. */
  public boolean canAccess(CudaDevice peer) {
    return canAccess(ordinal(), peer.ordinal());
  }

  /**
   * Maps memory of {@code peer}, past and future, so that kernels here can load and store it. Again
   * is harmless; itself is harmless.
   */
  public void enablePeerAccess(CudaDevice peer) {
    if (peer.ordinal() == ordinal()) {
      return;
    }
    try (var _ = enter()) {
      int result = DeviceCalls.enablePeerAccess(peer.context(), 0);
      if (result != DriverConstants.CUDA_SUCCESS
          && result != DriverConstants.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
        throw CudaException.of(
            result,
            DriverFunction.CTX_ENABLE_PEER_ACCESS,
            "from device "
                + ordinal()
                + " to "
                + peer.ordinal()
                + ": nvidia-smi topo -p2p r tells which devices can reach one another");
      }
    }
  }

  /** Waits for all work of the device's primary context. */
  public void synchronize() {
    try (var _ = enter()) {
      DeviceCalls.synchronize();
    }
  }

  /** Bytes that are free now. */
  public long freeMemory() {
    try (var _ = enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment sizes = arena.allocate(ValueLayout.JAVA_LONG, 2);
      MemoryCalls.info(sizes.address(), sizes.address() + Long.BYTES);
      return sizes.getAtIndex(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** The context is current until the result is closed. */
  ContextScope enter() {
    return ContextScope.enter(context());
  }

  /**
   * Says that a kernel runs in the context which nobody ends, for instance one of a library whose
   * partner is gone. The driver takes nothing back before all kernels have ended; so from now on
   * whatever is closed on this device stays with this process, its other buffers included.
   */
  public void hold() {
    HELD.add(context());
  }

  /** Gives something back with the context current, if that comes to an end. */
  void giveBack(Runnable call) {
    if (!HELD.contains(context())) {
      try (var _ = enter()) {
        call.run();
      }
    }
  }

  private void checkOpen() {
    if (closed) {
      throw new IllegalStateException("device " + ordinal() + " is closed");
    }
  }

  /** Gives the primary context back. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      if (!HELD.contains(context)) {
        DeviceCalls.releasePrimaryContext(handle);
      }
    }
  }

  @Override
  public String toString() {
    return "device " + ordinal() + " (" + properties.name() + ")";
  }
}
