package org.ep4j.cli.doctor;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The machine, for the artifacts of measurements. */
public final class Machine {
  private Machine() {}

  /** Free main memory in bytes, 0 if unknown. */
  public static long availableMemory() {
    return SystemFiles.kilobytes(Path.of("/proc/meminfo"), "MemAvailable").orElse(0L);
  }

  /** The fields for artifacts. */
  public static Map<String, Object> tree() {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("java", Runtime.version().toString());
    tree.put("vendor", System.getProperty("java.vendor"));
    tree.put("vm", System.getProperty("java.vm.name"));
    tree.put("flags", List.of(ProcessHandle.current().info().arguments().orElse(new String[0])));
    tree.put(
        "vector_bits",
        ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent()
            ? VectorWidth.preferredBits()
            : 0);
    tree.put("os", System.getProperty("os.name") + " " + System.getProperty("os.version"));
    tree.put("cpu", CpuFacts.model());
    tree.put("cores", Runtime.getRuntime().availableProcessors());
    tree.put(
        "memory_bytes", SystemFiles.kilobytes(Path.of("/proc/meminfo"), "MemTotal").orElse(0L));
    tree.put("gpus", CudaFacts.tree());
    return tree;
  }
}
