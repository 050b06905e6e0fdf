package org.ep4j.cuda.driver.calls;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The CUDA driver of this machine: availability, version and device count. The first call opens and
 * initialises the library. Only {@link #require} throws if the library is missing.
 */
public final class CudaDriver {
  /**
   * Environment variable with the path of the driver library, for libraries that the loader does
   * not find.
   */
  public static final String LIBRARY_VARIABLE = "EP4J_CUDA_DRIVER";

  /** Oldest CUDA version of a driver that exports every function that ep4j calls. */
  public static final int OLDEST = 12000;

  /** Filled by the first {@link #find}; class initialisation makes it thread-safe. */
  private static final class Search {
    private static final LibrarySearch RESULT = search();

    private static LibrarySearch search() {
      if (DriverLibrary.name().isEmpty()) {
        return LibrarySearch.failed(missing(System.getenv(LIBRARY_VARIABLE)));
      }
      List<String> lacking = new ArrayList<>();
      for (DriverFunction function : DriverFunction.values()) {
        if (!function.optional() && !DriverLibrary.has(function)) {
          lacking.add(function.symbol());
        }
      }
      if (!lacking.isEmpty()) {
        return LibrarySearch.failed(
            DriverLibrary.name()
                + " lacks "
                + String.join(", ", lacking)
                + ": install an NVIDIA driver of version 525 (CUDA 12.0) or newer");
      }
      int version = DeviceCalls.driverVersion();
      if (version < OLDEST) {
        return LibrarySearch.failed(
            "the NVIDIA driver supports CUDA "
                + versionText(version)
                + "; ep4j needs CUDA 12.0: install driver 525 or newer");
      }
      int result = DeviceCalls.init(0);
      return result == 0
          ? LibrarySearch.found(DriverLibrary.name())
          : LibrarySearch.failed(initialisation(result));
    }
  }

  private CudaDriver() {}

  /** Whether the driver is usable, with the reason if not; the first call loads the driver. */
  public static LibrarySearch find() {
    return Search.RESULT;
  }

  /**
   * Requires a usable driver.
   *
   * @throws org.ep4j.error.EngineUnavailableException with the reason if the driver is unusable
   */
  public static void require() {
    find().require();
  }

  /** Version of CUDA that the driver supports: 1000 * major + 10 * minor. */
  public static int version() {
    require();
    return DeviceCalls.driverVersion();
  }

  /** A version as text, for example {@code 13.0}. */
  public static String versionText(int version) {
    return version / 1000 + "." + version % 1000 / 10;
  }

  /** Number of devices; 0 if the driver is unusable. */
  public static int deviceCount() {
    return find().found() ? DeviceCalls.count() : 0;
  }

  /** Message for a missing driver library. */
  public static String missing(@Nullable String variable) {
    return "no CUDA driver library: searched for "
        + String.join(", ", DriverLibrary.candidates(variable))
        + (variable == null || variable.isEmpty()
            ? " (" + LIBRARY_VARIABLE + " is not set)"
            : " (set by " + LIBRARY_VARIABLE + ")")
        + ": install the NVIDIA driver, version 525 or newer";
  }

  private static String initialisation(int result) {
    String text = "cuInit failed with " + CudaException.describe(result);
    if (result == DriverConstants.CUDA_ERROR_NO_DEVICE) {
      String visible = System.getenv("CUDA_VISIBLE_DEVICES");
      return text
          + ": the driver is installed but reports no GPU"
          + (visible == null
              ? ": check nvidia-smi"
              : ": check CUDA_VISIBLE_DEVICES, which is '" + visible + "'");
    }
    return text
        + ": check nvidia-smi; the kernel module and the library must have the same version";
  }
}
