package org.ep4j.cuda.internode;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Cores for the threads of a proxy: from the NUMA node of the GPU, in descending order from its
 * last core, separate for each GPU of the node by the order of bus addresses, so that processes
 * with one visible GPU each choose different cores. None if too few cores exist: a polling thread
 * must not occupy the only core of others.
 */
final class ProxyCores {
  private static final String NVIDIA = "0x10de";

  /** PCI class of display controllers, which includes GPUs. */
  private static final String DISPLAY = "0x03";

  /** One in {@code SHARE} cores of a node may be used. */
  private static final int SHARE = 2;

  private final Path system;
  private final Path status;

  ProxyCores() {
    this(Path.of("/sys"), Path.of("/proc/self/status"));
  }

  /** Same with another file system, for tests. */
  ProxyCores(Path system, Path status) {
    this.system = system;
    this.status = status;
  }

  /**
   * Cores for {@code threads} threads of the GPU at a bus address; empty if no cores are free or
   * the system does not report them.
   *
   * @param bus address as the driver writes it, {@code 0000:1b:00.0}
   */
  List<Integer> nearest(String bus, int threads) {
    try {
      Path devices = system.resolve("bus/pci/devices");
      String mine = bus.toLowerCase(Locale.ROOT);
      String node = read(devices.resolve(mine).resolve("numa_node"));
      List<String> gpus = gpusOf(devices, node);
      int place = gpus.indexOf(mine);
      List<Integer> cores = numbers(read(cpus(node)));
      cores.retainAll(allowed());
      if (place < 0 || cores.size() < SHARE * threads * gpus.size()) {
        return List.of();
      }
      int end = cores.size() - place * threads;
      return List.copyOf(cores.subList(end - threads, end));
    } catch (IOException | NumberFormatException e) {
      return List.of();
    }
  }

  /** File with the cores of a node, or with all cores if the node is unknown. */
  private Path cpus(String node) {
    return node.equals("-1")
        ? system.resolve("devices/system/cpu/online")
        : system.resolve("devices/system/node/node" + node + "/cpulist");
  }

  private static List<String> gpusOf(Path devices, String node) throws IOException {
    List<String> found = new ArrayList<>();
    try (DirectoryStream<Path> all = Files.newDirectoryStream(devices)) {
      for (Path device : all) {
        if (read(device.resolve("vendor")).equals(NVIDIA)
            && read(device.resolve("class")).startsWith(DISPLAY)
            && read(device.resolve("numa_node")).equals(node)) {
          found.add(device.getFileName().toString());
        }
      }
    }
    found.sort(null);
    return found;
  }

  private List<Integer> allowed() throws IOException {
    for (String line : Files.readAllLines(status)) {
      if (line.startsWith("Cpus_allowed_list:")) {
        return numbers(line.substring(line.indexOf(':') + 1).strip());
      }
    }
    return List.of();
  }

  private static String read(Path file) throws IOException {
    return Files.readString(file).strip();
  }

  /** Numbers of a list such as {@code 0-15,32-47}, ascending. */
  static List<Integer> numbers(String list) {
    List<Integer> numbers = new ArrayList<>();
    for (String part : list.split(",", -1)) {
      String[] ends = part.strip().split("-", 2);
      int last = Integer.parseInt(ends[ends.length - 1]);
      for (int core = Integer.parseInt(ends[0]); core <= last; core++) {
        numbers.add(core);
      }
    }
    return numbers;
  }
}
