package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.ep4j.cuda.driver.calls.ContextScope;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.driver.calls.DeviceCalls;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.cuda.driver.calls.DriverFunction;
import org.ep4j.cuda.driver.calls.MemoryCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/**
 * A device with its primary context retained. The CUDA runtime and other libraries use the same
 * context, so their pointers and streams are valid here. Close all objects of the device before the
 * device.
 */
public final class CudaDevice implements AutoCloseable {
  /** Contexts whose resources are no longer released, because a kernel in them never ends. */
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

  /** Number of devices; 0 if the driver is unusable. */
  public static int count() {
    return CudaDriver.deviceCount();
  }

  /**
   * Opens a device.
   *
   * @throws org.ep4j.error.EngineUnavailableException if the driver is unusable
   * @throws org.ep4j.error.InvalidArgumentException if the device does not exist
   */
  public static CudaDevice open(int ordinal) {
    DeviceProperties properties = DeviceProperties.of(ordinal);
    int handle = DeviceCalls.device(ordinal);
    try {
      return new CudaDevice(properties, handle, DeviceCalls.retainPrimaryContext(handle));
    } catch (CudaException e) {
      // What is free is known in a context only.
      throw e.isOutOfMemory()
          ? MissingMemory.error(e, "a context of " + name(properties) + " is wanted")
          : e;
    }
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
   * Whether NVLink connects this device with the device at a PCI bus address of this host. False if
   * CUDA_VISIBLE_DEVICES hides that device from this process.
   */
  public boolean isLinked(String pciBusId) {
    for (int i = 0; i < count(); i++) {
      if (DeviceProperties.of(i).pciBusId().equals(pciBusId)) {
        return areLinked(ordinal(), i);
      }
    }
    return false;
  }

  /** Whether NVLink connects two devices. */
  public static boolean areLinked(int from, int to) {
    CudaDriver.require();
    // Native peer atomics distinguish NVLink from PCIe.
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

  /** Properties of the device. */
  public DeviceProperties properties() {
    return properties;
  }

  /** Architecture to compile for, for example {@code sm_90a}. */
  public String architecture() {
    return properties.architecture();
  }

  /** The primary context, a CUcontext. */
  public long context() {
    checkOpen();
    return context;
  }

  /** Makes the context current for the calling thread, permanently. Allocates nothing. */
  public void makeCurrent() {
    DeviceCalls.setCurrent(context());
  }

  /** Whether kernels here can load and store memory of {@code peer}. */
  public boolean canAccess(CudaDevice peer) {
    return canAccess(ordinal(), peer.ordinal());
  }

  /**
   * Maps present and future memory of {@code peer}, so that kernels here can load and store it.
   * Repeated calls and the device itself are allowed.
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
                + ": run nvidia-smi topo -p2p r to list the devices that can reach each other");
      }
    }
  }

  /** Waits for all work of the device's primary context. */
  public void synchronize() {
    try (var _ = enter()) {
      DeviceCalls.synchronize();
    }
  }

  /** Free device memory in bytes. */
  public long freeMemory() {
    try (var _ = enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment sizes = arena.allocate(ValueLayout.JAVA_LONG, 2);
      MemoryCalls.info(sizes.address(), sizes.address() + Long.BYTES);
      return sizes.getAtIndex(ValueLayout.JAVA_LONG, 0);
    }
  }

  /**
   * Bytes that are wanted and bytes that are free, for the error of an allocation of any library.
   */
  public String wants(long bytes) {
    return bytes + " bytes of " + this + " are wanted, " + freeText();
  }

  /** Whether fewer bytes are free, as far as the driver answers: it may be what has failed. */
  public boolean lacks(long bytes) {
    try {
      return freeMemory() < bytes;
    } catch (CudaException e) {
      return false;
    }
  }

  /** Bytes that are free, for an error. */
  String freeText() {
    try {
      return freeMemory() + " of " + properties.memoryBytes() + " bytes of the GPU are free";
    } catch (CudaException e) {
      return "what is free is unknown (" + e.text() + ")";
    }
  }

  /** Makes the context current until the result is closed. */
  ContextScope enter() {
    return ContextScope.enter(context());
  }

  /**
   * Records that a kernel of this context may never end, for example a kernel of a library whose
   * peer has died. The driver frees resources only after all kernels have ended, so from now on
   * every object closed on this device stays allocated until the process ends, including those of
   * other buffers.
   */
  public void hold() {
    HELD.add(context());
  }

  /** Releases a resource with the context current, unless the context is held. */
  void giveBack(Runnable call) {
    if (!HELD.contains(context())) {
      try (var _ = enter()) {
        call.run();
      }
    }
  }

  private void checkOpen() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "device " + ordinal() + " is closed: create a new one");
    }
  }

  /** Releases the primary context. */
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
    return name(properties);
  }

  private static String name(DeviceProperties properties) {
    return "device " + properties.ordinal() + " (" + properties.name() + ")";
  }
}
