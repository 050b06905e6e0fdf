package org.ep4j.cuda.far;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Cores for the threads of a proxy: of the NUMA node that the GPU hangs on, from its last core
 * down, each GPU of the node its own, by the order of their bus addresses, so that processes which
 * see one GPU each choose apart. None where there are too few: a thread that polls must not keep
 * others from their only core.
 */
final class ProxyCores {
  private static final String NVIDIA = "0x10de";

  /** Class of display controllers, of which GPUs are. */
  private static final String DISPLAY = "0x03";

  /** What may be taken of a node's cores: one in so many. */
  private static final int SHARE = 2;

  private final Path system;
  private final Path status;

  ProxyCores() {
    this(Path.of("/sys"), Path.of("/proc/self/status"));
  }

  /** The same of another file system. */
  ProxyCores(Path system, Path status) {
    this.system = system;
    this.status = status;
  }

  /**
   * Cores for {@code threads} threads of the GPU at a bus address; empty if there are none to
   * spare, or the system does not say.
   *
   * @param bus as the driver writes it, {@code 0000:1b:00.0}
   */
  List<Integer> near(String bus, int threads) {
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

  /** The cores of a node; all of them where nodes are not told apart. */
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

  /** Of a list such as {@code 0-15,32-47}, ascending. */
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
