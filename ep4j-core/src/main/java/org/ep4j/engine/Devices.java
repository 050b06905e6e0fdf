package org.ep4j.engine;

import java.util.Optional;
import java.util.OptionalInt;
import java.util.ServiceLoader;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;

/** Finds the module that accesses the memory of devices. */
public final class Devices {
  /** Looked up once: the module path does not change. */
  private static final class Found {
    private static final Optional<DeviceAccess> ACCESS =
        ServiceLoader.load(DeviceAccess.class, Devices.class.getClassLoader()).findFirst();
  }

  private Devices() {}

  /** Number of devices; 0 if no module accesses any. */
  public static int count() {
    return Found.ACCESS.map(DeviceAccess::devices).orElse(0);
  }

  /** As {@link DeviceAccess#deviceOf}; empty if no module accesses devices. */
  public static OptionalInt deviceOf(long address) {
    return Found.ACCESS.map(access -> access.deviceOf(address)).orElse(OptionalInt.empty());
  }

  /**
   * Copies from and to {@code device}.
   *
   * @throws EngineUnavailableException if no module accesses the device
   */
  public static DeviceAccess access(int device) {
    return Found.ACCESS.orElseThrow(
        () ->
            new EngineUnavailableException(
                ErrorCode.ENGINE_UNAVAILABLE,
                "no module on the module path accesses the memory of device "
                    + device
                    + ": add ep4j-cuda (module org.ep4j.cuda)"));
  }
}
