package org.ep4j.wire;

import java.io.IOException;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
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
import org.ep4j.config.WireName;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;

/**
 * What {@code auto} takes between hosts: a wire with network ports of its own ({@link
 * WireProvider#ports()}) if all ranks have one and a probe reaches every peer, else {@code tcp}.
 * Every rank decides from the same bytes of two exchanges, so the ranks agree.
 *
 * <p><b>First exchange.</b> Each rank names its host, and for each such wire the active ports and
 * what keeps it from using them. A wire that a rank cannot use is out.
 *
 * <p><b>Probe.</b> The ranks open the wire, and send between each other until a deadline of the
 * probe's own, see {@link WireProbe}.
 *
 * <p><b>Second exchange.</b> Each rank tells what did not reach it or what failed. The probe's wire
 * stays open until then: a peer that closes early would look unreachable.
 *
 * <p>A rank throws between the exchanges only where all ranks do: the others would wait for it.
 */
final class AutoWire {
  private static final Logger LOG = System.getLogger("org.ep4j.wire");
  private static final Path HOST_NAME = Path.of("/proc/sys/kernel/hostname");

  /** Ranks in texts of this class and of {@code CollectiveStep}, whose digits follow no locale. */
  private static final Pattern RANK = Pattern.compile("rank (\\d+)(?=:)");

  /**
   * Longer than a port with default settings takes to report that its packets are lost: eight times
   * 0.27 s, of which some ports make four times as much.
   */
  private static final Duration PROBE = Duration.ofSeconds(10);

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
      Offer offer = offer(provider);
      if (!offer.ports.isEmpty()) {
        mine.put(provider.name(), offer);
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

  /** What this rank tells of a wire. */
  private Offer offer(WireProvider provider) {
    String ports = portsOf(provider);
    if (ports.isEmpty()) {
      return new Offer("", "");
    }
    try {
      return new Offer(ports, provider.unavailableBecause(group));
    } catch (RuntimeException | LinkageError e) {
      return new Offer(ports, e.toString());
    }
  }

  /** The active ports of a wire on this host; empty also if it cannot list them. */
  private static String portsOf(WireProvider provider) {
    try {
      return String.join(", ", provider.ports());
    } catch (RuntimeException e) {
      LOG.log(
          Level.WARNING,
          ErrorCode.WIRE_FAILED.message(
              "wire '%s' cannot list its ports on host %s".formatted(provider.name(), hostName())),
          e);
      return "";
    }
  }

  /** Logs the ports that stay idle on this host because the program asks for {@code tcp}. */
  static void reportIdle(List<WireProvider> providers) {
    for (WireProvider provider : providers) {
      String ports = portsOf(provider);
      if (!ports.isEmpty()) {
        LOG.log(
            Level.INFO,
            ErrorCode.PORTS_IDLE.message(
                "wire 'tcp' is selected, and ports %s of host %s, which wire '%s' could use, are idle"
                    .formatted(ports, hostName(), provider.name())));
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
        return "rank " + rank + ": no active port for it";
      }
      if (!offer.problem.isEmpty()) {
        return "rank " + rank + ": ports " + offer.ports + ": " + offer.problem;
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
        Region region = wire.allocate(WireProbe.bytes(group.size()), config.timeout());
        problem = run(new WireProbe(wire, region, this::named), limit, ports(name));
      } catch (WireException e) {
        // Opening and allocating are collective: all ranks have this error, which names the rank.
        problem = String.valueOf(e.getMessage());
      }
      // A rank that has seen a failure knows more than one that has waited in vain.
      // Some ranks come here at once, others after the deadline of the probe.
      return exchange(problem, config.timeout().plus(limit)).stream()
          .filter(text -> !text.isEmpty())
          .min(Comparator.comparing(text -> text.contains(WireProbe.SILENCE)))
          .orElse("");
    } finally {
      if (wire != null) {
        close(wire);
      }
    }
  }

  /** Runs the probe: what this rank has found, under its number; empty for success. */
  private String run(WireProbe probe, Duration limit, String ports) {
    String problem;
    try {
      problem = probe.run(limit, ports);
    } catch (RuntimeException e) {
      problem = "the probe failed unexpectedly: " + e;
    }
    return problem.isEmpty() ? "" : "rank " + group.rank() + ": " + problem;
  }

  private static void close(Wire wire) {
    try {
      wire.close();
    } catch (RuntimeException e) {
      LOG.log(
          Level.WARNING,
          ErrorCode.WIRE_FAILED.message(
              "the probe of wire '%s' has left resources open".formatted(wire.name())),
          e);
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

  private String named(int rank) {
    return "rank " + rank + " on host " + reports.get(rank).host;
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
        : rank.replaceFirst(Matcher.quoteReplacement(named(number)));
  }

  private static String hostName() {
    try {
      return Files.readString(HOST_NAME).strip();
    } catch (IOException e) {
      return "unknown";
    }
  }
}
