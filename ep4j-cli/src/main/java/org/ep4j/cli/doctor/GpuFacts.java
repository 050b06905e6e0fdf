package org.ep4j.cli.doctor;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.ep4j.cuda.driver.calls.CudaDriver;

/** NVIDIA devices, their driver, and the libraries of the CUDA engine. */
final class GpuFacts {
  private static final String TOPIC = "GPU";
  private static final Path DRIVER = Path.of("/proc/driver/nvidia");

  private GpuFacts() {}

  static List<Finding> look() {
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
    return findings;
  }

  /** Devices as listed by the kernel module, for machines without a usable driver library. */
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
