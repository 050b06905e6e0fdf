package org.ep4j.wire;

import java.io.IOException;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.ep4j.ErrorCode;
import org.ep4j.WireName;
import org.ep4j.group.Group;

/**
 * What {@code auto} takes between hosts: a wire with network ports of its own ({@link
 * WireProvider#ports()}) if all ranks have one and a probe reaches every peer, else {@code tcp}.
 * Every rank decides from the same bytes of two exchanges, so the ranks agree.
 *
 * <p><b>First exchange.</b> Each rank names its host, and for each such wire the active ports and
 * what keeps it from using them. A wire that a rank cannot use is out.
 *
 * <p><b>Probe.</b> The ranks open the wire and send a put and an add to each peer over each lane,
 * as far as the lanes carry them until a deadline of the probe's own.
 *
 * <p><b>Second exchange.</b> Each rank tells what did not reach it or what failed. The probe's wire
 * stays open until then: a peer that closes early would look unreachable.
 */
final class AutoWire {
  private static final Logger LOG = System.getLogger("org.ep4j.wire");
  private static final Path HOST_NAME = Path.of("/proc/sys/kernel/hostname");
  private static final Pattern RANK = Pattern.compile("rank (\\d+)(?=:)");

  /**
   * Longer than a port with default settings takes to report that its packets are lost: eight times
   * 0.27 s, of which some ports make four times as much.
   */
  private static final Duration PROBE = Duration.ofSeconds(10);

  private static final String SILENCE = "nothing came";

  /**
   * More than a packet of any network (4 KiB): switches that drop large packets carry small ones.
   */
  private static final long PUT_BYTES = 8 << 10;

  /**
   * Memory that the probe exposes: more than the usual limits of locked memory (64 KiB, 8 MiB),
   * within which the regions of an engine would not fit either.
   */
  private static final long REGION_BYTES = 16 << 20;

  private final Group group;
  private final WireConfig config;
  private final Map<String, Offer> mine = new LinkedHashMap<>();
  private final List<WireProvider> providers;
  private final List<Report> reports = new ArrayList<>();

  /**
   * A wire with ports of its own on a rank.
   *
   * @param ports active ports, for messages
   * @param problem what keeps the rank from using them; empty for nothing
   */
  private record Offer(String ports, String problem) {}

  /** The host of a rank, and the rank's offers by the name of the wire. */
  private record Report(String host, Map<String, Offer> offers) {}

  AutoWire(Group group, WireConfig config, List<WireProvider> providers) {
    this.group = group;
    this.config = config;
    this.providers = providers;
  }

  /**
   * The name of the wire; collective.
   *
   * @param logs whether this rank logs what stays idle on its host
   */
  String choose(boolean logs) {
    for (WireProvider provider : providers) {
      List<String> ports = provider.ports();
      if (!ports.isEmpty()) {
        String problem = provider.unavailableBecause(group);
        mine.put(provider.name(), new Offer(String.join(", ", ports), problem));
      }
    }
    exchangeOffers();
    TreeSet<String> names = new TreeSet<>();
    reports.forEach(report -> names.addAll(report.offers.keySet()));
    for (String name : names) {
      String refusal = refusal(name);
      if (refusal.isEmpty()) {
        refusal = probe(name);
      }
      if (refusal.isEmpty()) {
        return name;
      }
      if (logs && mine.containsKey(name)) {
        LOG.log(Level.WARNING, idle(name, withHost(refusal)));
      }
    }
    return WireName.TCP;
  }

  /** Logs the ports that stay idle on this host because the program asks for {@code tcp}. */
  static void reportIdle(List<WireProvider> providers) {
    for (WireProvider provider : providers) {
      List<String> ports = provider.ports();
      if (!ports.isEmpty()) {
        LOG.log(
            Level.INFO,
            ErrorCode.PORTS_IDLE.message(
                "wire 'tcp' is selected, and ports %s of host %s, which wire '%s' could use, are idle"
                    .formatted(String.join(", ", ports), hostName(), provider.name())));
      }
    }
  }

  private String idle(String name, String refusal) {
    return ErrorCode.PORTS_IDLE.message(
        "wire 'auto' takes tcp, and ports %s of host %s are idle, because wire '%s' cannot connect all ranks: %s"
            .formatted(ports(name), hostName(), name, refusal));
  }

  /** Active ports of this rank's host that a wire uses. */
  private String ports(String name) {
    Offer offer = mine.get(name);
    return offer == null ? "" : offer.ports;
  }

  private void exchangeOffers() {
    StringBuilder text = new StringBuilder(hostName());
    mine.forEach(
        (name, offer) ->
            text.append('\n')
                .append(name)
                .append('\t')
                .append(offer.ports)
                .append('\t')
                .append(offer.problem.replaceAll("\\s+", " ")));
    for (String report : exchange(text.toString(), config.timeout())) {
      String[] lines = report.split("\n", -1);
      Map<String, Offer> offers = new LinkedHashMap<>();
      for (int i = 1; i < lines.length; i++) {
        String[] fields = lines[i].split("\t", -1);
        offers.put(fields[0], new Offer(fields[1], fields[2]));
      }
      reports.add(new Report(lines[0], offers));
    }
  }

  /** The first rank that cannot use a wire, and why; empty if all can. */
  private String refusal(String name) {
    for (int rank = 0; rank < reports.size(); rank++) {
      Offer offer = reports.get(rank).offers.get(name);
      if (offer == null) {
        return "rank %d: no active port for it".formatted(rank);
      }
      if (!offer.problem.isEmpty()) {
        return "rank %d: ports %s: %s".formatted(rank, offer.ports, offer.problem);
      }
    }
    return "";
  }

  /** Why the probe has not reached all ranks, the same text on all ranks; empty if it has. */
  private String probe(String name) {
    WireProvider provider =
        providers.stream().filter(known -> known.name().equals(name)).findFirst().orElseThrow();
    Duration limit = config.timeout().compareTo(PROBE) < 0 ? config.timeout() : PROBE;
    String problem;
    Wire wire = null;
    try {
      try {
        wire = provider.open(group, probeConfig(provider));
        Region region = wire.allocate(regionBytes(), config.timeout());
        problem = send(wire, region, limit, ports(name));
      } catch (WireException e) {
        // Opening and allocating are collective: all ranks have this error, which names the rank.
        problem = String.valueOf(e.getMessage());
      }
      // A rank that has seen a failure knows more than one that has waited in vain.
      // Some ranks come here at once, others after the deadline of the probe.
      return exchange(problem, config.timeout().plus(limit)).stream()
          .filter(text -> !text.isEmpty())
          .min(Comparator.comparing(text -> text.contains(SILENCE)))
          .orElse("");
    } finally {
      if (wire != null) {
        wire.close();
      }
    }
  }

  /** The probe takes the ports, lanes and settings that the wire will have. */
  private WireConfig probeConfig(WireProvider provider) {
    WireConfig probe =
        new WireConfig(
            provider.name(),
            config.options(),
            1,
            group.size(),
            config.bytesInFlight(),
            config.operationsInFlight(),
            1,
            config.encrypted(),
            config.timeout(),
            config.affinity());
    return provider.choosesLanes() ? probe : probe.settled(WireConfig.DEFAULT_LANES);
  }

  /** A place for the bytes of each rank, and the bytes that this rank sends behind them. */
  private long regionBytes() {
    return Math.max(REGION_BYTES, (group.size() + 1) * PUT_BYTES);
  }

  /**
   * Sends to all peers and waits for what they send.
   *
   * @return the first peer that was not reached, or that did not reach this rank, and why; empty
   *     for success
   */
  private String send(Wire wire, Region region, Duration limit, String ports) {
    long from = group.size() * PUT_BYTES;
    region.segment().asSlice(from, PUT_BYTES).fill(pattern(group.rank()));
    WireWait wait = new WireWait(wire, 0, limit);
    try {
      for (int peer = 0; peer < group.size(); peer++) {
        if (peer != group.rank()) {
          send(wire, wait, region, from, peer);
        }
      }
      wait.until(() -> settled(wire), "the puts and adds of all ranks");
    } catch (WireTimeoutException e) {
      // Below is the peer for which this rank has waited.
    }
    for (int peer = 0; peer < group.size(); peer++) {
      String problem = peer == group.rank() ? "" : problem(wire, region, peer, limit, ports);
      if (!problem.isEmpty()) {
        return "rank %d: %s".formatted(group.rank(), problem);
      }
    }
    return "";
  }

  /** Sends to a peer; a failed lane keeps nothing from the other peers. */
  private void send(Wire wire, WireWait wait, Region region, long from, int peer) {
    long at = group.rank() * PUT_BYTES;
    try {
      for (int i = 0; i < wire.config().lanes(); i++) {
        Lane lane = wire.lane(peer, i);
        wait.put(lane, region, from, region, at, PUT_BYTES, group.rank());
        wait.add(lane, group.rank(), 1);
      }
    } catch (LaneFailedException e) {
      // The lane keeps its failure.
    }
  }

  /** Whether nothing more is to come: each peer has arrived, or has failed. */
  private boolean settled(Wire wire) {
    for (int peer = 0; peer < group.size(); peer++) {
      if (peer != group.rank() && (wire.failedLanes() == 0 || LaneFailure.of(wire, peer) == null)) {
        for (int i = 0; i < wire.config().lanes(); i++) {
          if (!wire.lane(peer, i).flush()) {
            return false;
          }
        }
        if (!arrived(wire, peer)) {
          return false;
        }
      }
    }
    return true;
  }

  private static boolean arrived(Wire wire, int peer) {
    // Each lane has brought one put and one add.
    return wire.counters().get(peer) == 2L * wire.config().lanes();
  }

  private String problem(Wire wire, Region region, int peer, Duration limit, String ports) {
    String name = "rank %d on host %s".formatted(peer, reports.get(peer).host);
    LaneFailure failure = LaneFailure.of(wire, peer);
    if (failure != null) {
      return "%s is not reached: %s".formatted(name, failure.text());
    }
    if (!arrived(wire, peer)) {
      return "%s from %s over ports %s within %d ms"
          .formatted(SILENCE, name, ports, limit.toMillis());
    }
    MemorySegment got = region.segment().asSlice(peer * PUT_BYTES, PUT_BYTES);
    for (long at = 0; at < PUT_BYTES; at++) {
      if (got.get(ValueLayout.JAVA_BYTE, at) != pattern(peer)) {
        return "wrong bytes came from " + name;
      }
    }
    return "";
  }

  private static byte pattern(int rank) {
    return (byte) (rank + 1);
  }

  private List<String> exchange(String text, Duration timeout) {
    List<String> texts = new ArrayList<>();
    for (byte[] one : group.allGather(text.getBytes(StandardCharsets.UTF_8), timeout)) {
      texts.add(new String(one, StandardCharsets.UTF_8));
    }
    return texts;
  }

  /** Adds the host of the rank that a refusal names. */
  private String withHost(String refusal) {
    Matcher rank = RANK.matcher(refusal);
    if (!rank.find()) {
      return refusal;
    }
    int number = Integer.parseInt(rank.group(1));
    return number >= reports.size()
        ? refusal
        : rank.replaceFirst(
            Matcher.quoteReplacement(
                "rank %d on host %s".formatted(number, reports.get(number).host)));
  }

  private static String hostName() {
    try {
      return Files.readString(HOST_NAME).strip();
    } catch (IOException e) {
      return "unknown";
    }
  }
}
