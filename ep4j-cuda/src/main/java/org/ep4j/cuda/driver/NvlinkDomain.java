package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.HexFormat;
import org.ep4j.cuda.driver.calls.DriverLayouts;
import org.ep4j.cuda.driver.calls.NvmlCalls;

/**
 * The NVLink domain of a device: GPUs, possibly of several hosts, whose kernels can load and store
 * each other's memory.
 *
 * @param name cluster and clique that the driver's management library reports; empty if the device
 *     is in no domain that it knows
 * @param problem why the name is empty
 */
public record NvlinkDomain(String name, String problem) {
  /** The domain of the device at a PCI address. Does not throw. */
  public static NvlinkDomain of(String pciBusId) {
    String problem = NvmlCalls.problem();
    return problem.isEmpty() ? ask(pciBusId) : none(problem);
  }

  private static NvlinkDomain ask(String pciBusId) {
    int result = NvmlCalls.init();
    if (result != NvmlCalls.NVML_SUCCESS) {
      return none("nvmlInit_v2 returned " + result);
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment device = arena.allocate(ValueLayout.JAVA_LONG);
      result = NvmlCalls.deviceByPciBusId(pciBusId, device);
      if (result != NvmlCalls.NVML_SUCCESS) {
        return none("nvmlDeviceGetHandleByPciBusId_v2 returned " + result + " for " + pciBusId);
      }
      MemorySegment info = arena.allocate(NvmlCalls.FABRIC_INFO);
      info.set(ValueLayout.JAVA_INT, offset("version"), NvmlCalls.FABRIC_INFO_VERSION);
      result = NvmlCalls.gpuFabricInfo(device.get(ValueLayout.JAVA_LONG, 0), info);
      return result == NvmlCalls.NVML_SUCCESS
          ? read(info)
          : none("nvmlDeviceGetGpuFabricInfoV returned " + result + " for " + pciBusId);
    }
  }

  private static NvlinkDomain read(MemorySegment info) {
    int state = info.get(ValueLayout.JAVA_BYTE, offset("state"));
    if (state != NvmlCalls.NVML_GPU_FABRIC_STATE_COMPLETED) {
      return none("the GPU is not registered with an NVLink fabric (state " + state + ")");
    }
    int status = info.get(ValueLayout.JAVA_INT, offset("status"));
    if (status != NvmlCalls.NVML_SUCCESS) {
      return none("the GPU's registration with its NVLink fabric has failed with " + status);
    }
    byte[] uuid =
        info.asSlice(offset("clusterUuid"), NvmlCalls.NVML_GPU_FABRIC_UUID_LEN)
            .toArray(ValueLayout.JAVA_BYTE);
    // The NVLink of a single host has no cluster.
    return Arrays.equals(uuid, new byte[uuid.length])
        ? none("the GPU's NVLink fabric is that of its host")
        : new NvlinkDomain(
            HexFormat.of().formatHex(uuid)
                + "."
                + Integer.toUnsignedString(info.get(ValueLayout.JAVA_INT, offset("cliqueId"))),
            "");
  }

  private static NvlinkDomain none(String problem) {
    return new NvlinkDomain("", problem);
  }

  private static long offset(String field) {
    return DriverLayouts.offset(NvmlCalls.FABRIC_INFO, field);
  }
}
