package org.ep4j.cuda.put;

import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.BackendChoice;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.Backends;
import org.ep4j.cuda.backend.DeviceChoice;
import org.ep4j.cuda.backend.LibraryModule;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.cuda.backend.PutWindow;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.internode.RingPuts;
import org.ep4j.cuda.internode.WireChoice;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.cuda.struct.PutParameters;
import org.ep4j.engine.Interrupts;
import org.ep4j.engine.world.ConfigAgreement;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * Memory of equal size on all ranks, and the parameters for kernels that put into it, signal and
 * flush: {@code kernels/transport/device_put.cuh}. This class loads the kernels, because
 * compilation and linking depend on the backend. Used by one thread.
 *
 * <p>Ranks that access each other by stores signal with atomics, which GPUs support on each other's
 * memory over NVLink, not over PCIe.
 */
public final class DevicePut implements AutoCloseable {
  /** Size of the parameter that kernels take by value, see {@link #describe}. */
  public static final int PARAMETER_BYTES = new PutParameters().bytes();

  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");

  /** Macro with the transport of a kernel; numbers as in the kernels. */
  private static final String TRANSPORT = "EP4J_PUT_TRANSPORT";

  private static final String NO_KERNELS = "kernels that put";

  /** How long closing ranks wait for ranks whose kernels may still write here. */
  private static final Duration PARTING = Duration.ofSeconds(5);

  private enum PutPath {
    STORES,
    RINGS,
    LIBRARY
  }

  private final ResourceStack owned = new ResourceStack();
  private final Group group;
  private final PutConfig config;
  private final CudaDevice device;
  private final Backend backend;
  private final PutWindow window;
  private final @Nullable PutTransport transport;
  private final @Nullable RingPuts internode;
  private final DeviceMemory tables;
  private boolean closed;

  private DevicePut(Group group, PutConfig config) {
    this.group = group;
    Participants participants = Participants.ofAll(group);
    this.config =
        BackendWorld.together(
            participants, config.timeout(), "the settings of puts", () -> settled(config));
    PutShape shape = config.shape();
    boolean complete = false;
    try {
      agree();
      Nodes nodes = ConfigAgreement.nodes(group, config.ranksPerNode(), config.timeout());
      device =
          BackendWorld.together(
              participants,
              config.timeout(),
              "the GPU",
              () -> owned.own(CudaDevice.open(DeviceChoice.ordinal(group))));
      device.makeCurrent();
      backend =
          owned.own(Backends.open(this.config.backend(), participants, device, config.timeout()));
      window = owned.own(PutWindow.open(group, backend, intranode(nodes), shape, config.timeout()));
      transport = window.transport();
      tellWhatIsMissing(window.obstacle());
      internode = transport == null && nodes.count() > 1 ? rings() : null;
      tables = owned.own(DeviceMemory.allocate(device, tableBytes()));
      tables.zero(0, tables.bytes());
      tables.copyFrom(0, MemorySegment.ofArray(addresses()));
      group.barrier(config.timeout());
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /** Opens memory of all ranks; collective. */
  public static DevicePut open(Group group, PutConfig config) {
    return new DevicePut(group, config);
  }

  /**
   * The configuration with the backend and the wire from variables, so that ranks compare effective
   * values.
   */
  private static PutConfig settled(PutConfig config) {
    String backend = BackendChoice.of(config.backend()).name();
    return new PutConfig(
        backend,
        config.shape(),
        config.ranksPerNode(),
        WireChoice.of(backend, config.wire()),
        config.timeout());
  }

  private void agree() {
    String mine = config.toString();
    byte[][] all = group.allGather(mine.getBytes(StandardCharsets.UTF_8), config.timeout());
    for (int r = 0; r < all.length; r++) {
      String other = new String(all[r], StandardCharsets.UTF_8);
      if (!other.equals(mine)) {
        throw new ConfigurationMismatchException(
            ErrorCode.PUT_CONFIG_MISMATCH,
            "the ranks cannot put to each other: rank %d has %s, rank %d has %s: use one configuration"
                .formatted(group.rank(), mine, r, other));
      }
    }
  }

  private boolean[] intranode(Nodes nodes) {
    boolean[] intranode = new boolean[group.size()];
    for (int r = 0; r < intranode.length; r++) {
      intranode[r] = nodes.together(r, group.rank());
    }
    return intranode;
  }

  private void tellWhatIsMissing(String obstacle) {
    if (!obstacle.isEmpty()) {
      LOG.log(
          Level.WARNING,
          "Backend ''{0}'' has no transport for puts of kernels here: within a node they are"
              + " stores, between nodes the proxy posts them to a wire. {1}",
          backend.name(),
          obstacle);
    }
  }

  private RingPuts rings() {
    PutShape shape = config.shape();
    return owned.own(
        RingPuts.open(
            backend.world(),
            config.wire(),
            config.timeout(),
            shape.bytes(),
            shape.lanes(),
            shape.signals()));
  }

  /** Addresses of the ranks, then flushes of the lanes. */
  private long tableBytes() {
    return (group.size() + config.shape().lanes()) * (long) Long.BYTES;
  }

  private long[] addresses() {
    return transport != null && transport.movesAll() ? new long[group.size()] : window.addresses();
  }

  /** The device of this rank. */
  public CudaDevice device() {
    return device;
  }

  /** The memory of this rank; the words after it are internal. */
  public DeviceMemory memory() {
    return window.memory();
  }

  /** Short description of the transports, for display. */
  public String text() {
    return switch (putPath()) {
      case STORES -> backend.name() + ", stores";
      case RINGS -> backend.name() + ", stores; to other nodes the proxy over " + wire();
      case LIBRARY -> backend.name() + ", " + (transport == null ? "" : transport.text());
    };
  }

  private String wire() {
    return internode == null ? "" : internode.wire();
  }

  private PutPath putPath() {
    return transport != null ? PutPath.LIBRARY : internode != null ? PutPath.RINGS : PutPath.STORES;
  }

  /**
   * Compiles a file of this jar that uses {@code device_put.cuh} for the transport of these ranks,
   * and loads kernels of it; collective. The module is closed before this object. No rank returns
   * before all have loaded theirs: loading waits for kernels that run on the same GPU, which may
   * wait for a rank that has no kernels yet.
   *
   * @param kernels names of the kernels to use: no others can be loaded later
   */
  public PutModule load(String entry, Map<String, String> defines, List<String> kernels) {
    Map<String, String> all = new TreeMap<>(defines);
    all.put(TRANSPORT, String.valueOf(putPath().ordinal()));
    ResourceStack loaded = new ResourceStack();
    boolean complete = false;
    try {
      PutModule module =
          backend.world().together(NO_KERNELS, () -> loaded.own(loadHere(entry, all, kernels)));
      complete = true;
      return module;
    } finally {
      if (!complete) {
        loaded.close();
      }
    }
  }

  private PutModule loadHere(String entry, Map<String, String> defines, List<String> kernels) {
    ResourceStack loaded = new ResourceStack();
    boolean complete = false;
    try {
      CudaModule module =
          transport == null
              ? loaded.own(KernelCompiler.standard().load(device, entry, defines))
              : loaded.own(LibraryModule.load(device, entry, defines, transport)).module();
      PutModule made = new PutModule(module, loaded, kernels);
      complete = true;
      return made;
    } finally {
      if (!complete) {
        loaded.close();
      }
    }
  }

  /**
   * Writes the {@code DevicePut} that kernels take by value.
   *
   * @param parameter {@link #PARAMETER_BYTES} bytes
   */
  public void describe(MemorySegment parameter) {
    parameter.fill((byte) 0);
    PutParameters p = new PutParameters();
    p.placeIn(parameter);
    PutShape shape = config.shape();
    p.rank.set(group.rank());
    p.ranks.set(group.size());
    p.lanes.set(shape.lanes());
    p.signals.set(shape.signals());
    p.own.set(window.memory().address());
    p.peers.set(tables.address());
    p.signalWords.set(shape.signalWords());
    p.flushes.set(tables.address() + group.size() * (long) Long.BYTES);
    if (transport != null) {
      p.library.set(transport.library());
      p.window.set(transport.window());
    }
    if (internode != null) {
      p.outgoing.set(internode.outgoing());
      p.incoming.set(internode.incoming());
      p.counters.set(internode.counters());
      p.lanesPerRing.set(internode.lanesPerRing());
      internode.describe(p.rings);
    }
  }

  /** Why this rank no longer sends; null if it does. */
  public @Nullable String problem() {
    return internode == null ? null : internode.problem();
  }

  /** Returns after all ranks have called it. */
  public void barrier() {
    group.barrier(config.timeout());
  }

  /**
   * Closes all resources; no kernel of this rank uses them any more, and the other ranks close too.
   * An interrupt from before does not end the wait for them.
   */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    Interrupts.closeUninterruptibly(this::closeHere);
  }

  private void closeHere() {
    try {
      // A peer's kernel may still write words here.
      group.barrier(PARTING);
    } catch (GroupException | IllegalStateException e) {
      // Dead or missing ranks write nothing.
    }
    device.makeCurrent();
    owned.close();
  }
}
