package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.util.List;
import java.util.Map;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;

/** Without a driver, the error names the searched libraries and what to install. */
class MissingDriverTest {
  /** Prints the result of the search, in a process whose environment the test chooses. */
  static final class Search {
    private Search() {}

    public static void main(String[] arguments) {
      System.out.println("problem: " + CudaDriver.find().problem());
      System.out.println("devices: " + CudaDevice.count());
      try (CudaDevice device = CudaDevice.open(0)) {
        System.out.println("opened " + device);
      } catch (EngineUnavailableException e) {
        System.out.println("open: " + e.getMessage());
      }
    }
  }

  @Test
  void theMessageNamesTheLibraryTheVariableAndTheRemedy() {
    assertThat(CudaDriver.missing(null))
        .contains("libcuda.so.1")
        .contains(CudaDriver.LIBRARY_VARIABLE)
        .contains("NVIDIA driver");
    assertThat(CudaDriver.missing("/opt/libcuda.so"))
        .contains("/opt/libcuda.so (set by EP4J_CUDA_DRIVER)");
  }

  @Test
  void variableThatNamesNoLibraryIsReportedAndNothingElseIsTried() throws Exception {
    List<String> lines =
        ForkedJvm.run(
            Search.class, Map.of(CudaDriver.LIBRARY_VARIABLE, "/nowhere/libcuda.so.1"), List.of());
    assertThat(lines)
        .anyMatch(
            line ->
                line.startsWith("problem: no CUDA driver library")
                    && line.contains("/nowhere/libcuda.so.1 (set by EP4J_CUDA_DRIVER)"))
        .contains("devices: 0")
        .anyMatch(line -> line.startsWith("open: " + ErrorCode.NATIVE_LIBRARY_MISSING.id()));
  }

  @Test
  void aLibraryThatIsNoDriverIsRefusedBeforeAnyCall() throws Exception {
    List<String> lines =
        ForkedJvm.run(Search.class, Map.of(CudaDriver.LIBRARY_VARIABLE, "libm.so.6"), List.of());
    assertThat(lines)
        .anyMatch(line -> line.startsWith("problem: libm.so.6 lacks") && line.contains("cuInit"));
  }

  @Test
  void missingDeviceIsReportedByEveryEntryPoint() {
    assumeFalse(CudaDriver.find().found(), "this machine has a driver");
    assertThatThrownBy(() -> CudaDevice.open(0)).isInstanceOf(EngineUnavailableException.class);
    assertThatThrownBy(() -> DeviceProperties.of(0)).isInstanceOf(EngineUnavailableException.class);
    assertThatThrownBy(() -> CudaDevice.canAccess(0, 1))
        .isInstanceOf(EngineUnavailableException.class);
    assertThatThrownBy(() -> PointerAttributes.of(4096))
        .isInstanceOf(EngineUnavailableException.class);
    assertThatThrownBy(CudaDriver::version).isInstanceOf(EngineUnavailableException.class);
  }
}
