package org.ep4j.wire;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.ServiceLoader;
import java.util.concurrent.ThreadLocalRandom;
import org.ep4j.config.WireName;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.memory.SymmetricMemory;
import org.ep4j.wire.support.CollectiveStep;
import org.ep4j.wire.support.GroupWire;
import org.ep4j.wire.support.LaneNotices;
import org.jspecify.annotations.Nullable;

/** Opens wires. */
public final class Wires {
  private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");

  private Wires() {}

  /**
   * Opens a wire between all ranks of a group; collective.
   *
   * @throws ConfigurationMismatchException if the ranks' configurations differ
   * @throws WireException if a rank does not have the kind of wire, or the wire cannot connect
   *     these ranks; names the rank, on all ranks
   */
  public static Wire open(Group group, WireConfig config) {
    return open(group, config, host());
  }

  /**
   * Opens a wire on a host with this identifier; ranks with the same identifier share memory, the
   * others count as ranks of other hosts.
   */
  static Wire open(Group group, WireConfig config, String host) {
    return group.together("opening a wire", () -> openTogether(group, config, host));
  }

  private static Wire openTogether(Group group, WireConfig config, String host) {
    Hosts hosts = agree(group, config, host);
    String name = config.wire();
    if (name.equals(WireName.AUTO)) {
      name =
          group.inProcess()
              ? WireName.INPROC
              : hosts.one
                  ? WireName.SHM
                  : new AutoWire(group, config, providers()).choose(hosts.first);
    } else if (name.equals(WireName.TCP) && !hosts.one && hosts.first) {
      AutoWire.reportIdle(providers());
    }
    WireProvider provider = provider(name, group, config.timeout());
    // Before any rank has the wire, so that no notice finds a rank that does not listen.
    LaneNotices notices = new LaneNotices(group, hosts.topic);
    boolean taken = false;
    try {
      Wire wire =
          provider.open(
              group, provider.choosesLanes() ? config : config.settled(WireConfig.DEFAULT_LANES));
      if (wire instanceof GroupWire own) {
        own.exchange(notices);
        taken = true;
      }
      return wire;
    } finally {
      if (!taken) {
        notices.close();
      }
    }
  }

  /** Every kind of wire on the module path. */
  public static List<WireProvider> providers() {
    List<WireProvider> providers = new ArrayList<>();
    ServiceLoader.load(WireProvider.class, Wires.class.getClassLoader()).forEach(providers::add);
    return providers;
  }

  /** Returns {@code name} if ep4j or a provider on the module path has it. */
  static String requireKnown(String name) {
    if (WireName.ALL.contains(name)) {
      return name;
    }
    List<String> all = new ArrayList<>(WireName.ALL);
    for (WireProvider provider : providers()) {
      if (provider.name().equals(name)) {
        return name;
      }
      if (!all.contains(provider.name())) {
        all.add(provider.name());
      }
    }
    throw new InvalidArgumentException(
        ErrorCode.NAME_UNKNOWN,
        "wire",
        "'" + name + "'",
        "one of " + String.join(", ", all),
        "correct the name, or add the module that provides it");
  }

  /** Finds a provider; if a single rank has none, the call fails on all ranks. */
  private static WireProvider provider(String name, Group group, Duration timeout) {
    List<String> known = new ArrayList<>();
    @Nullable WireProvider found = null;
    for (WireProvider provider : providers()) {
      known.add(provider.name());
      found = provider.name().equals(name) ? provider : found;
    }
    String problem;
    if (found == null) {
      problem =
          ErrorCode.WIRE_UNKNOWN.message(
              "wire '"
                  + name
                  + "' is not on the module path or class path (known: auto, "
                  + String.join(", ", known)
                  + "): correct the name or add its module");
    } else {
      WireProvider chosen = found;
      problem = CollectiveStep.attempt(() -> requireSuitable(chosen, group));
    }
    CollectiveStep.exchange(group, problem, new byte[0], timeout);
    return Objects.requireNonNull(found, "the exchange fails without a provider");
  }

  private static void requireSuitable(WireProvider provider, Group group) {
    String reason = provider.unavailableBecause(group);
    if (!reason.isEmpty()) {
      throw new WireException(
          ErrorCode.WIRE_UNSUITABLE,
          "wire '" + provider.name() + "' cannot connect these ranks: " + reason);
    }
  }

  /**
   * The hosts of a group.
   *
   * @param one whether all ranks see the same host and shared memory
   * @param first whether no lower rank is on the host of this rank
   * @param topic random number that rank 0 has drawn for this wire
   */
  private record Hosts(boolean one, boolean first, long topic) {}

  /** Compares the configurations. */
  private static Hosts agree(Group group, WireConfig config, String ownHost) {
    String fields = config.common();
    String number = Long.toString(ThreadLocalRandom.current().nextLong());
    byte[] mine = (ownHost + "\n" + number + "\n" + fields).getBytes(StandardCharsets.UTF_8);
    byte[][] all = group.allGather(mine, config.timeout());
    List<String> differences = new ArrayList<>();
    boolean one = true;
    boolean first = true;
    long topic = 0;
    for (int rank = 0; rank < all.length; rank++) {
      String[] theirs = new String(all[rank], StandardCharsets.UTF_8).split("\n", 3);
      boolean here = theirs[0].equals(ownHost);
      one &= here;
      first &= !here || rank >= group.rank();
      topic = rank == 0 ? Long.parseLong(theirs[1]) : topic;
      if (!theirs[2].equals(fields)) {
        differences.add("rank %d has %s".formatted(rank, difference(theirs[2], fields)));
      }
    }
    if (!differences.isEmpty()) {
      throw new ConfigurationMismatchException(
          ErrorCode.CONFIGURATION_MISMATCH,
          ("the configurations of the wire differ (%s; rank %d has other values):"
                  + " pass the same values on all ranks")
              .formatted(String.join("; ", differences), group.rank()));
    }
    return new Hosts(one, first, topic);
  }

  private static String difference(String theirs, String ours) {
    List<String> known = Arrays.asList(ours.split("[\\[\\], ]+"));
    return Arrays.stream(theirs.split("[\\[\\], ]+"))
        .filter(field -> !known.contains(field))
        .toList()
        .toString();
  }

  /** Identifies the host, and containers of one host that do not share memory. */
  private static String host() {
    try {
      return Files.readString(BOOT_ID).strip() + " " + SymmetricMemory.directoryId(System.getenv());
    } catch (IOException | UnsupportedOperationException e) {
      // No Linux, no /proc, or no such directory: ranks that cannot prove that they share memory
      // count as ranks of different hosts.
      return "unknown " + ProcessHandle.current().pid();
    }
  }
}
