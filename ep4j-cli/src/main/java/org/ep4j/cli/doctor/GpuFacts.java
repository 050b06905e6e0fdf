package org.ep4j.cli.doctor;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.ep4j.cuda.driver.CudaDriver;

/** NVIDIA devices, their driver, and the libraries that a GPU engine needs. */
final class GpuFacts {
  private static final String TOPIC = "GPU";
  private static final Path DRIVER = Path.of("/proc/driver/nvidia");

  private record Wanted(String name, String library, String use) {}

  private static final List<Wanted> LIBRARIES =
      List.of(
          new Wanted("NCCL", "libnccl.so*", "a backend between GPUs; package libnccl2"),
          new Wanted("NVSHMEM", "libnvshmem_host.so*", "a backend between GPUs and hosts"));

  private GpuFacts() {}

  static List<Finding> look(Libraries libraries) {
    List<Finding> findings = new ArrayList<>();
    findings.addAll(CudaDriver.find().found() ? CudaFacts.devices() : devices());
    Optional<String> driver =
        SystemFiles.line(DRIVER.resolve("version")).map(line -> line.replace("NVRM version:", ""));
    findings.add(
        driver.isPresent()
            ? Finding.found(TOPIC, "driver", driver.get().strip(), "")
            : Finding.missing(
                TOPIC, "driver", "no " + DRIVER, "the NVIDIA kernel driver is not loaded"));
    findings.addAll(CudaFacts.libraries());
    for (Wanted wanted : LIBRARIES) {
      findings.add(NetworkFacts.library(TOPIC, wanted.name, wanted.library, wanted.use, libraries));
    }
    return findings;
  }

  /** What the kernel module knows, for machines whose driver library cannot be used. */
  private static List<Finding> devices() {
    List<Finding> findings = new ArrayList<>();
    for (Path device : SystemFiles.entries(DRIVER.resolve("gpus"), "*")) {
      Path information = device.resolve("information");
      String minor = SystemFiles.value(information, "Device Minor").orElse("?");
      boolean usable = Files.isReadable(Path.of("/dev/nvidia" + minor));
      String model = SystemFiles.value(information, "Model").orElse("unknown model");
      findings.add(
          usable
              ? Finding.found(TOPIC, "GPU " + minor, model, "bus " + device.getFileName())
              : Finding.warning(
                  TOPIC, "GPU " + minor, model, "/dev/nvidia" + minor + " cannot be opened here"));
    }
    if (findings.isEmpty()) {
      findings.add(
          Finding.missing(
              TOPIC,
              "devices",
              "none",
              "the host engine does all the work: same API, same results"));
    }
    return findings;
  }
}
