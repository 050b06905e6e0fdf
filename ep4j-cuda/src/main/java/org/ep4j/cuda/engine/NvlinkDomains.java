package org.ep4j.cuda.engine;

import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.ep4j.config.BackendName;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.DeviceChoice;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceProperties;
import org.ep4j.cuda.driver.NvlinkDomain;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.driver.VmmMemory;
import org.ep4j.engine.world.AgreedStep;
import org.ep4j.engine.world.HostDomains;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * Joins the hosts whose GPUs are in one NVLink domain, if ranks of each of them can map memory of
 * the others. A trial of one small allocation shows that before anything is opened. What one rank
 * cannot do, no rank does: each decides from what all have reported.
 */
final class NvlinkDomains implements HostDomains {
  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");

  private static final String NOT_SHARED = "cannot be shared by fabric handles";
  private static final String REMEDY =
      "run nvidia-imex on all of them and give every process a channel in"
          + " /dev/nvidia-caps-imex-channels, or set ranksPerNode to the ranks of a host";

  private final Group group;
  private final BufferConfig config;
  private final Supplier<CudaDevice> opening;
  private @Nullable CudaDevice device;

  /**
   * @param opening opens the device of this rank, for trials; its owner closes it
   */
  NvlinkDomains(Group group, BufferConfig config, Supplier<CudaDevice> opening) {
    this.group = group;
    this.config = config;
    this.opening = opening;
  }

  @Override
  public String[] of(String[] hosts) {
    if (!wanted(hosts)) {
      return hosts;
    }
    String[] domains = joined(hosts, gather(domain()));
    if (!joinsAny(hosts, domains)) {
      return hosts;
    }
    String problem = trial(others(hosts, domains, group.rank()));
    if (problem.isEmpty()) {
      return domains;
    }
    if (config.ranksPerNode() > 0) {
      throw new ConfigurationMismatchException(
          ErrorCode.NODE_ON_TWO_HOSTS,
          "ranksPerNode = "
              + config.ranksPerNode()
              + " puts hosts into one node, but memory "
              + NOT_SHARED
              + ": "
              + problem
              + ": "
              + REMEDY);
    }
    if (group.rank() == 0) {
      LOG.log(
          Level.WARNING,
          "hosts of one NVLink domain are different nodes, and rows between them take the wire,"
              + " because memory {0}: {1}: {2}",
          NOT_SHARED,
          problem,
          REMEDY);
    }
    return hosts;
  }

  /** Whether a node could span hosts; all ranks have the same configuration. */
  private boolean wanted(String[] hosts) {
    int perNode = config.ranksPerNode() == 0 ? hosts.length : config.ranksPerNode();
    boolean spans = false;
    for (int r = 0; r < hosts.length; r++) {
      spans |= !hosts[r].equals(hosts[r / perNode * perNode]);
    }
    return spans && config.backend().equals(BackendName.DIRECT);
  }

  /** Whether neighbouring hosts are in one domain. */
  private static boolean joinsAny(String[] hosts, String[] domains) {
    for (int r = 1; r < hosts.length; r++) {
      if (domains[r].equals(domains[r - 1]) && !hosts[r].equals(hosts[r - 1])) {
        return true;
      }
    }
    return false;
  }

  /** The NVLink domain of this rank's device; empty if none is known. */
  private String domain() {
    try {
      int ordinal = DeviceChoice.ordinal(group);
      NvlinkDomain domain = NvlinkDomain.of(DeviceProperties.of(ordinal).pciBusId());
      LOG.log(Level.DEBUG, "rank {0}: {1}", group.rank(), domain);
      return domain.name();
    } catch (RuntimeException | Error e) {
      // Other ranks wait; what is wrong with the device is reported where all ranks open theirs.
      LOG.log(Level.DEBUG, "the NVLink domain of rank " + group.rank() + " is unknown", e);
      return "";
    }
  }

  /** The domain of each rank's host; the host itself if its ranks are not all in one domain. */
  private static String[] joined(String[] hosts, String[] names) {
    Map<String, String> byHost = new HashMap<>();
    for (int r = 0; r < hosts.length; r++) {
      byHost.merge(hosts[r], names[r], (a, b) -> a.equals(b) ? a : "");
    }
    String[] domains = new String[hosts.length];
    for (int r = 0; r < hosts.length; r++) {
      String name = byHost.getOrDefault(hosts[r], "");
      domains[r] = name.isEmpty() ? hosts[r] : name;
    }
    return domains;
  }

  /** The first rank on each other host of the domain of {@code rank}. */
  private static List<Integer> others(String[] hosts, String[] domains, int rank) {
    List<Integer> others = new ArrayList<>();
    Set<String> seen = new HashSet<>();
    seen.add(hosts[rank]);
    for (int r = 0; r < hosts.length; r++) {
      if (domains[r].equals(domains[rank]) && seen.add(hosts[r])) {
        others.add(r);
      }
    }
    return others;
  }

  /**
   * Exports an allocation and maps one of each other host; collective.
   *
   * @param others see {@link #others}; empty on ranks that have nothing to try
   * @return empty, or why it failed on one rank
   */
  private String trial(List<Integer> others) {
    ResourceStack held = new ResourceStack();
    try {
      byte[][] exported = {{}};
      String problem = others.isEmpty() ? "" : attempt(() -> exported[0] = export(held));
      problem = first(gather(problem));
      if (!problem.isEmpty()) {
        return problem;
      }
      byte[][] all = group.allGather(exported[0], limit());
      for (int other : others) {
        if (problem.isEmpty()) {
          problem = attempt(() -> map(ByteBuffer.wrap(all[other])));
          problem = problem.isEmpty() ? "" : "memory of rank " + other + ": " + problem;
        }
      }
      // No rank frees its allocation before all have mapped it.
      return first(gather(problem));
    } finally {
      // The ranks have agreed: what fails now fails again where all of them open their devices.
      var _ = attempt(held::close);
    }
  }

  /** For steps in which ranks open their devices. */
  private Duration limit() {
    return BackendWorld.setUpTimeout(config.timeout()).plus(config.timeout());
  }

  private CudaDevice device() {
    CudaDevice opened = device == null ? opening.get() : device;
    device = opened;
    return opened;
  }

  private byte[] export(ResourceStack held) {
    VmmMemory memory = held.own(VmmMemory.allocate(device(), 1, VmmMemory.Sharing.FABRIC, false));
    return ByteBuffer.allocate(Long.BYTES + VmmMemory.FABRIC_HANDLE_BYTES)
        .putLong(memory.bytes())
        .put(memory.exportFabric())
        .array();
  }

  private void map(ByteBuffer exported) {
    long bytes = exported.getLong();
    byte[] handle = new byte[VmmMemory.FABRIC_HANDLE_BYTES];
    exported.get(handle);
    VmmMemory.importFabric(device(), handle, bytes).close();
  }

  /** Empty, or why the step failed. */
  private static String attempt(Runnable step) {
    try {
      step.run();
      return "";
    } catch (RuntimeException | Error e) { // also memory that runs out: other ranks wait
      return AgreedStep.text(e);
    }
  }

  /** The first text that is not empty, with its rank. */
  private static String first(String[] texts) {
    for (int r = 0; r < texts.length; r++) {
      if (!texts[r].isEmpty()) {
        return "rank " + r + ": " + texts[r];
      }
    }
    return "";
  }

  private String[] gather(String mine) {
    byte[][] all = group.allGather(mine.getBytes(StandardCharsets.UTF_8), limit());
    String[] texts = new String[all.length];
    for (int r = 0; r < all.length; r++) {
      texts[r] = new String(all[r], StandardCharsets.UTF_8);
    }
    return texts;
  }
}
