package org.ep4j.rdma.verbs.ports;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * Files in which the system describes itself. A file that is missing, or disappears during the
 * read, counts as empty.
 */
final class SystemFiles {
  private SystemFiles() {}

  static List<Path> children(Path directory) {
    if (!Files.isDirectory(directory)) {
      return List.of();
    }
    try (Stream<Path> files = Files.list(directory)) {
      return files.sorted(Comparator.comparing(Path::toString)).toList();
    } catch (IOException e) {
      return List.of(); // the device has just disappeared
    }
  }

  static String text(Path file) {
    try {
      return Files.readString(file).strip();
    } catch (IOException e) {
      return "";
    }
  }

  static String realPath(Path link) {
    try {
      return link.toRealPath().toString();
    } catch (IOException e) {
      return ""; // a software device has no location
    }
  }

  /** The NUMA node of a device; -1 if unknown. */
  static int numaNode(Path device) {
    String node = text(device.resolve("numa_node"));
    return node.matches("[0-9]{1,6}") ? Integer.parseInt(node) : -1;
  }

  /** Parses a list of cores such as {@code 0-15,32-47}; empty if the text is no such list. */
  static BitSet cores(String list) {
    BitSet cores = new BitSet();
    for (String part : list.split(",", -1)) {
      if (part.matches("[0-9]{1,6}(-[0-9]{1,6})?")) {
        String[] ends = part.split("-", 2);
        int first = Integer.parseInt(ends[0]);
        int last = Integer.parseInt(ends[ends.length - 1]);
        cores.set(first, Math.max(first, last) + 1);
      }
    }
    return cores;
  }
}
