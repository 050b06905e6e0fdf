package org.ep4j.engine;

import java.util.Optional;
import java.util.ServiceLoader;
import org.ep4j.EngineUnavailableException;

/** Finds who can reach the memory of devices. */
public final class Devices {
  /** Looked up once: what is on the module path does not change. */
  private static final class Found {
    private static final Optional<DeviceAccess> ACCESS =
        ServiceLoader.load(DeviceAccess.class, Devices.class.getClassLoader()).findFirst();
  }

  private Devices() {}

  /** Number of devices; 0 where nobody can reach any. */
  public static int count() {
    return Found.ACCESS.map(DeviceAccess::devices).orElse(0);
  }

  /**
   * Who copies from and to {@code device}.
   *
   * @throws EngineUnavailableException if nobody can
   */
  public static DeviceAccess access(int device) {
    return Found.ACCESS.orElseThrow(
        () ->
            new EngineUnavailableException(
                "nothing on the module path can reach the memory of device "
                    + device
                    + ": add ep4j-cuda (module org.ep4j.cuda)"));
  }
}
