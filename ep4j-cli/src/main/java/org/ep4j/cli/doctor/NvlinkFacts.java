package org.ep4j.cli.doctor;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceProperties;
import org.ep4j.cuda.driver.NvlinkDomain;
import org.ep4j.cuda.driver.calls.CudaException;

/** The NVLink domains of the GPUs, which decide whether hosts form a node together. */
final class NvlinkFacts {
  private static final String TOPIC = "GPU";
  private static final String NAME = "NVLink domain";
  private static final Path CHANNELS = Path.of("/dev/nvidia-caps-imex-channels");

  private NvlinkFacts() {}

  /** One line for all devices; requires a working driver. */
  static Finding look() {
    List<NvlinkDomain> domains = new ArrayList<>();
    boolean handles = true;
    for (int device = 0; device < CudaDevice.count(); device++) {
      try {
        DeviceProperties properties = DeviceProperties.of(device);
        domains.add(NvlinkDomain.of(properties.pciBusId()));
        handles &= properties.fabricHandles();
      } catch (CudaException e) {
        domains.add(new NvlinkDomain("", "GPU " + device + " cannot be queried"));
      }
    }
    return finding(domains, handles, !SystemFiles.entries(CHANNELS, "channel*").isEmpty());
  }

  /**
   * @param domains by device
   * @param handles whether the driver has fabric handles for all devices
   * @param channel whether this process sees an IMEX channel
   */
  static Finding finding(List<NvlinkDomain> domains, boolean handles, boolean channel) {
    Map<String, List<String>> devices = new TreeMap<>();
    Set<String> problems = new LinkedHashSet<>();
    for (int device = 0; device < domains.size(); device++) {
      NvlinkDomain domain = domains.get(device);
      if (domain.name().isEmpty()) {
        problems.add(domain.problem());
      } else {
        devices.computeIfAbsent(domain.name(), _ -> new ArrayList<>()).add("" + device);
      }
    }
    String why = String.join("; ", problems);
    if (devices.isEmpty()) {
      return Finding.found(TOPIC, NAME, "none", "a node is a host: " + why);
    }
    List<String> texts = new ArrayList<>();
    devices.forEach((name, list) -> texts.add(name + ": GPU " + String.join(", ", list)));
    String value = String.join("; ", texts);
    if (devices.size() > 1 || !problems.isEmpty()) {
      return Finding.found(
          TOPIC,
          NAME,
          value,
          "a node is a host, unless its ranks have GPUs of one domain"
              + (why.isEmpty() ? "" : "; others: " + why));
    }
    if (!handles || !channel) {
      return Finding.warning(
          TOPIC,
          NAME,
          value,
          "a node is a host, because "
              + (handles
                  ? "there is no IMEX channel in " + CHANNELS + ": run nvidia-imex and create one"
                  : "the driver has no fabric handles"));
    }
    return Finding.found(
        TOPIC, NAME, value, "its hosts are one node, if they can map each other's memory");
  }
}
