package org.ep4j.rdma.verbs.ports;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.LaunchEnvironment;
import org.ep4j.wire.WireException;
import org.ep4j.wire.support.CollectiveStep;

/** Discovers the RDMA ports of this host in system files, and assigns ports to ranks. */
public final class RdmaPorts {
  /** Where the system describes its devices. */
  public static final Path DEVICES = devices(System.getenv());

  private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");

  private static final int MAX_ADDRESSES = 256;

  private RdmaPorts() {}

  /** Below {@code SYSFS_PATH}, as in libibverbs, which reads the same variable; else /sys. */
  static Path devices(Map<String, String> variables) {
    String system = variables.getOrDefault("SYSFS_PATH", "");
    return Path.of(system.isEmpty() ? "/sys" : system, "class", "infiniband");
  }

  /** All ports of this host, by name. */
  public static List<RdmaPort> discover() {
    return discover(DEVICES);
  }

  static List<RdmaPort> discover(Path devices) {
    List<RdmaPort> ports = new ArrayList<>();
    for (Path device : SystemFiles.children(devices)) {
      for (Path port : SystemFiles.children(device.resolve("ports"))) {
        ports.add(describe(device, port));
      }
    }
    return ports;
  }

  private static RdmaPort describe(Path device, Path port) {
    Path hardware = device.resolve("device");
    return new RdmaPort(
        device.getFileName().toString(),
        Integer.parseInt(port.getFileName().toString()),
        // "4: ACTIVE"
        SystemFiles.text(port.resolve("state")).replaceFirst("^[0-9]+: *", ""),
        SystemFiles.text(port.resolve("link_layer")),
        SystemFiles.text(port.resolve("rate")),
        SystemFiles.numaNode(hardware),
        SystemFiles.realPath(hardware),
        addresses(port));
  }

  private static List<RdmaPort.Address> addresses(Path port) {
    List<RdmaPort.Address> addresses = new ArrayList<>();
    for (int i = 0; i < MAX_ADDRESSES; i++) {
      Path file = port.resolve("gids/" + i);
      if (!Files.exists(file)) {
        break;
      }
      String gid = SystemFiles.text(file);
      // Unused entries cannot be read, or are all 0.
      if (!gid.replaceAll("[0:]", "").isEmpty()) {
        addresses.add(
            new RdmaPort.Address(i, gid, SystemFiles.text(port.resolve("gid_attrs/types/" + i))));
      }
    }
    return addresses;
  }

  /**
   * The ports of this rank: those named in the variables of its process, else the closest ones.
   * Collective, like opening a wire.
   *
   * @param affinity sender of the rank, as in {@link org.ep4j.wire.WireConfig#affinity()}
   * @throws org.ep4j.error.InvalidArgumentException if a variable is invalid; names it
   * @throws WireException on all ranks, if a rank names a port that is missing or down, or has no
   *     port
   */
  public static PortChoice of(Group group, String affinity, Duration timeout) {
    return agree(group, affinity, timeout, RdmaSettings.of(System.getenv()), localRank(group));
  }

  public static PortChoice agree(
      Group group, String affinity, Duration timeout, RdmaSettings settings, int localRank) {
    List<RdmaPort> all = new ArrayList<>();
    byte[][] mine = {{}};
    String error =
        CollectiveStep.attempt(
            () -> {
              all.addAll(discover());
              mine[0] = request(all, settings, localRank, PcieLocation.of(affinity)).bytes();
            });
    byte[][] theirs = CollectiveStep.exchange(group, error, mine[0], timeout);
    List<PortRequest> requests = Arrays.stream(theirs).map(PortRequest::of).toList();
    return choice(all, PortAssignment.of(requests, group.rank()));
  }

  /**
   * The choices of ranks that are alone on a host like this one.
   *
   * @param places location of the sender of each local rank
   * @throws WireException as {@link #of}
   */
  public static List<PortChoice> choose(
      List<RdmaPort> all, RdmaSettings settings, List<PcieLocation> places) {
    List<PortRequest> requests = new ArrayList<>();
    for (int rank = 0; rank < places.size(); rank++) {
      requests.add(request(all, settings, rank, places.get(rank)));
    }
    return IntStream.range(0, requests.size())
        .mapToObj(rank -> choice(all, PortAssignment.of(requests, rank)))
        .toList();
  }

  private static PortChoice choice(List<RdmaPort> all, PortAssignment share) {
    return new PortChoice(
        share.ports().stream().map(name -> named(all, name)).toList(), share.first());
  }

  /** Local rank; all ranks of one JVM are on one host. */
  public static int localRank(Group group) {
    return group.inProcess()
        ? group.rank()
        : LaunchEnvironment.localRank(System.getenv()).orElse(group.rank());
  }

  /**
   * The request of a rank: the ports in the settings, else the active ports, closest first.
   *
   * @throws WireException if a named port is missing or down, or if no port is active
   */
  public static PortRequest request(
      List<RdmaPort> all, RdmaSettings settings, int localRank, PcieLocation place) {
    List<String> names = settings.portsOf(localRank);
    if (names.isEmpty()) {
      PortOrder order = PortOrder.of(all, place);
      requireSome(all, order);
      List<String> nearestFirst = order.ports().stream().map(RdmaPort::name).toList();
      return new PortRequest(host(), false, order.nearest(), nearestFirst);
    }
    for (String name : names) {
      RdmaPort port = named(all, name);
      if (!port.active()) {
        throw new WireException(
            ErrorCode.RDMA_PORT_DOWN,
            "port %s of %s is %s: connect its cable, or leave it out"
                .formatted(name, RdmaSettings.HCA, port.state()));
      }
    }
    return new PortRequest(host(), true, names.size(), names);
  }

  private static RdmaPort named(List<RdmaPort> all, String name) {
    return all.stream()
        .filter(candidate -> candidate.name().equals(name))
        .findFirst()
        .orElseThrow(
            () ->
                new WireException(
                    ErrorCode.RDMA_PORT_MISSING,
                    "%s names port %s, but this host has %s: name one of these"
                        .formatted(RdmaSettings.HCA, name, names(all))));
  }

  private static void requireSome(List<RdmaPort> all, PortOrder order) {
    if (order.ports().isEmpty()) {
      throw new WireException(
          ErrorCode.RDMA_NO_PORT,
          all.isEmpty()
              ? "this host has no RDMA device: check " + DEVICES
              : "no RDMA port of this host is active (" + names(all) + "): check the cables");
    }
  }

  /** Identifier of the host, independent of containers. */
  private static String host() {
    String boot = SystemFiles.text(BOOT_ID);
    return boot.isEmpty() ? "unknown " + ProcessHandle.current().pid() : boot;
  }

  private static String names(List<RdmaPort> ports) {
    return ports.isEmpty()
        ? "no RDMA port"
        : String.join(
            ", ", ports.stream().map(port -> port.name() + " (" + port.state() + ")").toList());
  }
}
