package org.ep4j.rdma.verbs.ports;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Locale;

/**
 * PCIe and NUMA location of a port, or of the sender (a GPU or cores).
 *
 * @param path the host bridge, the bridges below it and the device, from the top; empty without
 *     PCIe
 * @param numaNode NUMA node of the closest memory; -1 if unknown
 */
public record PcieLocation(List<String> path, int numaNode) {
  /** An unknown location: equally far from everything. */
  public static final PcieLocation ANYWHERE = new PcieLocation(List.of(), -1);

  private static final Path SYSTEM = Path.of("/sys");
  private static final Path STATUS = Path.of("/proc/self/status");
  private static final String CORES = "Cpus_allowed_list:";
  private static final String LONG_DOMAIN = "(0000)?";
  private static final String DEVICE = "[0-9a-f]{4,5}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]";

  /** Accepts any values of the system. */
  public PcieLocation {
    path = List.copyOf(path);
  }

  /**
   * The location of the sender of a rank.
   *
   * @param location as in {@link org.ep4j.wire.WireConfig#affinity()}: a device, or empty for the
   *     cores of this process
   */
  public static PcieLocation of(String location) {
    return location.isBlank() ? ofCores(SYSTEM, STATUS) : ofDevice(SYSTEM, location);
  }

  /** The location of a device, from its PCI address as written by a driver. */
  static PcieLocation ofDevice(Path system, String address) {
    String bus = address.strip().toLowerCase(Locale.ROOT);
    if (!bus.matches(LONG_DOMAIN + DEVICE)) {
      return ANYWHERE;
    }
    // Some drivers write the domain with eight digits; the system uses four if they suffice.
    Path device = system.resolve("bus/pci/devices").resolve(bus.replaceFirst("^0000(?=....:)", ""));
    return new PcieLocation(path(SystemFiles.realPath(device)), SystemFiles.numaNode(device));
  }

  /**
   * The NUMA node of all cores of a process; unknown if there are several, or only one in the host.
   */
  static PcieLocation ofCores(Path system, Path status) {
    BitSet mine = new BitSet();
    SystemFiles.text(status)
        .lines()
        .filter(line -> line.startsWith(CORES))
        .forEach(line -> mine.or(SystemFiles.cores(line.substring(CORES.length()).strip())));
    List<Path> nodes =
        SystemFiles.children(system.resolve("devices/system/node")).stream()
            .filter(node -> node.getFileName().toString().matches("node[0-9]{1,6}"))
            .toList();
    for (Path node : nodes) {
      BitSet others = (BitSet) mine.clone();
      others.andNot(SystemFiles.cores(SystemFiles.text(node.resolve("cpulist"))));
      if (nodes.size() > 1 && !mine.isEmpty() && others.isEmpty()) {
        int number = Integer.parseInt(node.getFileName().toString().substring("node".length()));
        return new PcieLocation(List.of(), number);
      }
    }
    return ANYWHERE;
  }

  /** The location of a port. */
  static PcieLocation of(RdmaPort port) {
    return new PcieLocation(path(port.pciPath()), port.numaNode());
  }

  /** The part of the directory of a device from the host bridge down. */
  private static List<String> path(String directory) {
    List<String> steps = new ArrayList<>();
    for (String step : directory.split("/", -1)) {
      boolean top = steps.isEmpty() && step.matches("pci[0-9a-f]{4,5}:[0-9a-f]{2}");
      if (top || (!steps.isEmpty() && step.matches(DEVICE))) {
        steps.add(step);
      }
    }
    return steps;
  }
}
