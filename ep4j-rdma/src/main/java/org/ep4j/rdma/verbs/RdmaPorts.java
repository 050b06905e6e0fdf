package org.ep4j.rdma.verbs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.ep4j.group.Group;
import org.ep4j.group.LaunchEnvironment;
import org.ep4j.wire.WireException;

/** Which RDMA ports this host has, and which of them a rank uses. Reads files of the system. */
public final class RdmaPorts {
  private static final Path DEVICES = Path.of("/sys/class/infiniband");

  /** Ports of a rank where nobody says: those of a dual-port device, or two devices. */
  private static final int USUAL = 2;

  private static final int MOST_ADDRESSES = 256;

  private RdmaPorts() {}

  /** All ports of this host, by name. */
  public static List<RdmaPort> discover() {
    return discover(DEVICES);
  }

  static List<RdmaPort> discover(Path devices) {
    List<RdmaPort> ports = new ArrayList<>();
    for (Path device : children(devices)) {
      for (Path port : children(device.resolve("ports"))) {
        ports.add(describe(device, port));
      }
    }
    return ports;
  }

  private static RdmaPort describe(Path device, Path port) {
    Path hardware = device.resolve("device");
    String numaNode = text(hardware.resolve("numa_node"));
    return new RdmaPort(
        device.getFileName().toString(),
        Integer.parseInt(port.getFileName().toString()),
        // "4: ACTIVE"
        text(port.resolve("state")).replaceFirst("^[0-9]+: *", ""),
        text(port.resolve("link_layer")),
        text(port.resolve("rate")),
        numaNode.isEmpty() ? -1 : Integer.parseInt(numaNode),
        realPath(hardware),
        addresses(port));
  }

  private static List<RdmaPort.Address> addresses(Path port) {
    List<RdmaPort.Address> addresses = new ArrayList<>();
    for (int i = 0; i < MOST_ADDRESSES; i++) {
      Path file = port.resolve("gids/" + i);
      if (!Files.exists(file)) {
        break;
      }
      String gid = text(file);
      // Free places cannot be read, or are all 0.
      if (!gid.replaceAll("[0:]", "").isEmpty()) {
        addresses.add(new RdmaPort.Address(i, gid, text(port.resolve("gid_attrs/types/" + i))));
      }
    }
    return addresses;
  }

  /**
   * The ports of this rank of a group, as the variables of its process say.
   *
   * @throws org.ep4j.InvalidArgumentException if a variable is bad; names it
   * @throws WireException as {@link #choose}
   */
  public static List<RdmaPort> of(Group group) {
    return choose(discover(), RdmaSettings.of(System.getenv()), localRank(group));
  }

  /** Number of this rank on its host; ranks of one JVM are on one host. */
  static int localRank(Group group) {
    return group.inProcess()
        ? group.rank()
        : LaunchEnvironment.localRank(System.getenv()).orElse(group.rank());
  }

  /**
   * The ports of a rank: those that the settings name, or else two of the active ones, other ones
   * for the next rank of the host. The nth port of a rank talks to the nth port of its peers, so
   * ports stay in the order of their names: that of the cables, usually.
   *
   * @throws WireException if a named port is missing or down, or if there is no active port
   */
  public static List<RdmaPort> choose(List<RdmaPort> all, RdmaSettings settings, int localRank) {
    List<String> names = settings.portsOf(localRank);
    if (names.isEmpty()) {
      return spread(all, localRank);
    }
    List<RdmaPort> chosen = new ArrayList<>();
    for (String name : names) {
      RdmaPort port =
          all.stream()
              .filter(candidate -> candidate.name().equals(name))
              .findFirst()
              .orElseThrow(
                  () ->
                      new WireException(
                          "%s names port %s, but this host has %s"
                              .formatted(RdmaSettings.HCA, name, names(all))));
      if (!port.active()) {
        throw new WireException(
            "port %s of %s is %s: plug in its cable, or leave it out"
                .formatted(name, RdmaSettings.HCA, port.state()));
      }
      chosen.add(port);
    }
    return chosen;
  }

  private static List<RdmaPort> spread(List<RdmaPort> all, int localRank) {
    List<RdmaPort> active = all.stream().filter(RdmaPort::active).toList();
    if (active.isEmpty()) {
      throw new WireException(
          all.isEmpty()
              ? "this host has no RDMA device: ls /sys/class/infiniband"
              : "no RDMA port of this host is active: " + names(all));
    }
    List<RdmaPort> chosen = new ArrayList<>();
    for (int i = 0; i < Math.min(USUAL, active.size()); i++) {
      chosen.add(active.get((USUAL * localRank + i) % active.size()));
    }
    return chosen;
  }

  private static String names(List<RdmaPort> ports) {
    return ports.isEmpty()
        ? "no RDMA port"
        : String.join(
            ", ", ports.stream().map(port -> port.name() + " (" + port.state() + ")").toList());
  }

  private static List<Path> children(Path directory) {
    if (!Files.isDirectory(directory)) {
      return List.of();
    }
    try (Stream<Path> files = Files.list(directory)) {
      return files.sorted(Comparator.comparing(Path::toString)).toList();
    } catch (IOException e) {
      return List.of(); // a device that has just gone
    }
  }

  private static String text(Path file) {
    try {
      return Files.readString(file).strip();
    } catch (IOException e) {
      return "";
    }
  }

  private static String realPath(Path link) {
    try {
      return link.toRealPath().toString();
    } catch (IOException e) {
      return ""; // a device in software has no place
    }
  }
}
