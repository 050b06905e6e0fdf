package org.ep4j.cli.doctor;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.cli.text.Units;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceProperties;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.driver.calls.LibrarySearch;
import org.ep4j.cuda.driver.compiler.NvJitLink;
import org.ep4j.cuda.driver.compiler.Nvrtc;
import org.ep4j.cuda.jit.CubinCache;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.error.InvalidArgumentException;

/** Information of the CUDA driver and of the compilers. Uses no memory of a device. */
final class CudaFacts {
  private static final String TOPIC = "GPU";

  private CudaFacts() {}

  /** The devices, their peer access and NVLink domains; requires a working driver. */
  static List<Finding> devices() {
    List<Finding> findings = new ArrayList<>();
    int count = CudaDevice.count();
    for (int device = 0; device < count; device++) {
      findings.add(device(device));
    }
    if (count > 1) {
      findings.add(peers(count));
    }
    if (count > 0) {
      findings.add(NvlinkFacts.look());
    }
    return findings;
  }

  /** The devices and their driver, for artifacts. */
  static List<Map<String, Object>> tree() {
    List<Map<String, Object>> devices = new ArrayList<>();
    for (int ordinal = 0; ordinal < CudaDevice.count(); ordinal++) {
      DeviceProperties device = DeviceProperties.of(ordinal);
      Map<String, Object> tree = new LinkedHashMap<>();
      tree.put("name", device.name());
      tree.put("compute_capability", device.computeCapability());
      tree.put("sms", device.multiprocessors());
      tree.put("memory_bytes", device.memoryBytes());
      tree.put("driver_cuda", CudaDriver.versionText(CudaDriver.version()));
      devices.add(tree);
    }
    return devices;
  }

  /** PCI addresses of the devices, by name; empty without a working driver. */
  static Map<String, String> addresses() {
    Map<String, String> addresses = new LinkedHashMap<>();
    int count = CudaDriver.find().found() ? CudaDevice.count() : 0;
    for (int device = 0; device < count; device++) {
      try {
        addresses.put("GPU " + device, DeviceProperties.of(device).pciBusId());
      } catch (CudaException e) {
        // The list of devices reports this error.
      }
    }
    return addresses;
  }

  private static Finding device(int ordinal) {
    String name = "GPU " + ordinal;
    try {
      DeviceProperties device = DeviceProperties.of(ordinal);
      return Finding.found(
          TOPIC,
          name,
          "%s, compute capability %s, %d SMs, %s"
              .formatted(
                  device.name(),
                  device.computeCapability(),
                  device.multiprocessors(),
                  Units.bytes(device.memoryBytes())),
          "bus %s; kernels are compiled for %s; GPUDirect: %s, %s"
              .formatted(
                  device.pciBusId(),
                  device.architecture(),
                  device.ordersRemoteWrites() ? "writes are ordered" : "no, writes are not ordered",
                  device.dmaBuf() ? "dma-bufs" : "by nvidia-peermem alone"));
    } catch (CudaException e) {
      return Finding.warning(TOPIC, name, "cannot be queried", String.valueOf(e.getMessage()));
    }
  }

  private static Finding peers(int count) {
    List<String> apart = new ArrayList<>();
    for (int from = 0; from < count; from++) {
      for (int to = 0; to < count; to++) {
        if (!CudaDevice.canAccess(from, to)) {
          apart.add(from + " to " + to);
        }
      }
    }
    return apart.isEmpty()
        ? Finding.found(TOPIC, "peer access", "between all " + count, "rows are written directly")
        : Finding.warning(
            TOPIC,
            "peer access",
            "not from " + String.join(", ", apart),
            "these GPUs cannot write to each other: nvidia-smi topo -p2p r shows the reason");
  }

  /** The driver library, the compilers, and the compiled kernels on disk. */
  static List<Finding> libraries() {
    return List.of(driver(), nvrtc(), nvJitLink(), cache());
  }

  private static Finding driver() {
    LibrarySearch search = CudaDriver.find();
    return search.found()
        ? Finding.found(
            TOPIC,
            "CUDA driver library",
            "CUDA " + CudaDriver.versionText(CudaDriver.version()),
            search.library())
        : Finding.missing(TOPIC, "CUDA driver library", "cannot be used", search.problem());
  }

  private static Finding nvrtc() {
    LibrarySearch search = Nvrtc.find();
    return search.found()
        ? Finding.found(
            TOPIC,
            "NVRTC",
            Nvrtc.version() + " for sm_" + spelled(Nvrtc.architectures()),
            search.library() + " compiles kernels at run time")
        : Finding.missing(TOPIC, "NVRTC", "cannot be used", search.problem() + withoutNvrtc());
  }

  private static String withoutNvrtc() {
    LibrarySearch other;
    try {
      other = KernelCompiler.standard().backend().find();
    } catch (InvalidArgumentException e) {
      return ""; // a setting of the cache: the line about compiled kernels has it
    }
    return other.found()
        ? "; " + other.library() + " compiles kernels instead"
        : "; without NVRTC and nvcc, only kernels in the cache run";
  }

  private static String spelled(List<Integer> architectures) {
    return String.join(", ", architectures.stream().map(String::valueOf).toList());
  }

  private static Finding nvJitLink() {
    LibrarySearch search = NvJitLink.find();
    return search.found()
        ? Finding.found(TOPIC, "nvJitLink", NvJitLink.version().toString(), search.library())
        : Finding.missing(
            TOPIC,
            "nvJitLink",
            "cannot be used",
            search.problem() + "; only backends between GPUs need it");
  }

  private static Finding cache() {
    CubinCache cache;
    try {
      cache = CubinCache.standard(System.getenv()).requireDirectory();
    } catch (IllegalArgumentException e) {
      return Finding.warning(
          TOPIC, "compiled kernels", "unusable variables", String.valueOf(e.getMessage()));
    }
    List<CubinCache.Entry> entries = cache.list();
    return Finding.found(
        TOPIC,
        "compiled kernels",
        entries.size()
            + ", "
            + Units.bytes(entries.stream().mapToLong(CubinCache.Entry::bytes).sum()),
        cache.directory() + "; ep4j cache");
  }
}
