package org.ep4j.nccl;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.DeviceChoice;
import org.ep4j.cuda.backend.RankLocation;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.memory.Participants;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.support.CollectiveStep;
import org.ep4j.wire.tcp.Carrier;
import org.ep4j.wire.tcp.CarrierService;
import org.jspecify.annotations.Nullable;

/**
 * Creates the carriers of a wire: per connection one communicator in each direction, whose id the
 * sender creates. All are created at once, which costs little more than one; then the pairs connect
 * one after the other, because NCCL allocates memory to connect, and kernels running on a GPU may
 * delay that.
 */
final class NcclCarrierService implements CarrierService {
  private static final System.Logger LOG = System.getLogger("org.ep4j.nccl");
  private static final Duration MIN_SET_UP = Duration.ofSeconds(60);
  private static final Duration PARTING = Duration.ofSeconds(8);
  private static final long LOOK_NANOS = 100_000;

  /** Much longer than a nonblocking call takes; close does not wait longer for a caller. */
  private static final long LONGEST_CALL_NANOS = 1_000_000_000;

  /**
   * An exiting process destroys state that NCCL's threads use; a thread that is still running then
   * crashes the process.
   */
  private final Thread atExit = Thread.ofPlatform().name("ep4j-nccl-exit").unstarted(this::leave);

  private final List<NcclCarrier> made = new ArrayList<>();
  private final List<NcclSimplexLink> loose = new ArrayList<>();
  private final List<Thread> parting = new ArrayList<>();
  private @Nullable CudaDevice device;
  private boolean closed;

  @Override
  public Carrier[][] open(Group group, WireConfig config) {
    Duration setUp = config.timeout().compareTo(MIN_SET_UP) > 0 ? config.timeout() : MIN_SET_UP;
    // Waits of the group must outlast the library's own limits.
    Duration timeout = setUp.plus(config.timeout());
    byte[][] ids = new byte[1][];
    Runtime.getRuntime().addShutdownHook(atExit);
    agree(group, timeout, () -> ids[0] = prepare(group, config));
    requireLocations(group, config);
    byte[][] all = CollectiveStep.exchange(group, "", ids[0], config.timeout());
    long end = System.nanoTime() + setUp.toNanos();
    NcclCarrier[][] carriers = new NcclCarrier[group.size()][];
    agree(
        group,
        timeout,
        () -> {
          for (int peer = 0; peer < carriers.length; peer++) {
            int connections = peer == group.rank() ? 0 : config.connections();
            carriers[peer] = new NcclCarrier[connections];
            for (int i = 0; i < connections; i++) {
              byte[] out = id(all[group.rank()], peer * config.connections() + i);
              byte[] in = id(all[peer], group.rank() * config.connections() + i);
              carriers[peer][i] = carrier(out, in);
            }
          }
          for (NcclCarrier[] toPeer : carriers) {
            for (NcclCarrier each : toPeer) {
              await(group, end, "the communicators", () -> each.out().idle() && each.in().idle());
            }
          }
        });
    agree(group, timeout, () -> connect(group, end, carriers));
    return carriers;
  }

  /** The ids of all connections from this rank. */
  private byte[] prepare(Group group, WireConfig config) {
    CudaDevice opened = CudaDevice.open(DeviceChoice.ordinal(group));
    device = opened;
    opened.makeCurrent();
    NcclBackendProvider provider = new NcclBackendProvider();
    int count = group.size() * config.connections();
    byte[] ids = new byte[count * NcclLayouts.UNIQUE_ID_BYTES];
    for (int i = 0; i < count; i++) {
      if (i / config.connections() != group.rank()) {
        byte[] id = provider.uniqueId();
        System.arraycopy(id, 0, ids, i * id.length, id.length);
      }
    }
    return ids;
  }

  private CudaDevice device() {
    return Objects.requireNonNull(device, "opened first");
  }

  private static byte[] id(byte[] ids, int number) {
    byte[] id = new byte[NcclLayouts.UNIQUE_ID_BYTES];
    System.arraycopy(ids, number * id.length, id, 0, id.length);
    return id;
  }

  /** The same decision on all ranks. */
  private void requireLocations(Group group, WireConfig config) {
    BackendWorld world =
        BackendWorld.gather(
            Participants.ofAll(group),
            device(),
            config.timeout(),
            new NcclBackendProvider().probe());
    String objection = SharedGpus.objection(world);
    if (!objection.isEmpty()) {
      throw new WireException(
          ErrorCode.NCCL_WIRE_UNUSABLE, "wire 'nccl': " + objection + ", or wire tcp");
    }
    List<RankLocation> locations = world.locations();
    for (int rank = 1; rank < locations.size(); rank++) {
      String version = locations.get(rank).version();
      if (!version.equals(locations.getFirst().version())) {
        throw new WireException(
            ErrorCode.BACKEND_VERSIONS_DIFFER,
            "wire 'nccl': rank 0 has NCCL %s, rank %d has %s: install one version on all hosts"
                .formatted(locations.getFirst().version(), rank, version));
      }
    }
  }

  private synchronized NcclCarrier carrier(byte[] outId, byte[] inId) {
    NcclSimplexLink out = link(outId, true);
    NcclSimplexLink in = link(inId, false);
    NcclCarrier carrier = new NcclCarrier(this, device(), out, in);
    loose.clear();
    made.add(carrier);
    return carrier;
  }

  private NcclSimplexLink link(byte[] id, boolean sends) {
    NcclSimplexLink link = new NcclSimplexLink(device(), sends, NcclCarrier.SLOTS);
    loose.add(link);
    link.begin(id);
    return link;
  }

  /** Connects each pair of ranks, in an order without deadlock. */
  private static void connect(Group group, long end, NcclCarrier[][] carriers) {
    int ranks = group.size();
    for (int round = 0; round < ranks; round++) {
      int peer = Math.floorMod(round - group.rank(), ranks);
      for (NcclCarrier carrier : carriers[peer]) {
        boolean first = group.rank() < peer;
        tryLink(group, end, carrier, first);
        tryLink(group, end, carrier, !first);
      }
    }
  }

  private static void tryLink(Group group, long end, NcclCarrier carrier, boolean out) {
    if (!(out ? carrier.tryOut() : carrier.tryIn())) {
      throw new NcclException(ErrorCode.NCCL_CALL_FAILED, "a new communicator accepts no work");
    }
    NcclSimplexLink link = out ? carrier.out() : carrier.in();
    await(group, end, "the first bytes between two ranks", () -> link.done() == 1);
  }

  /** A step that fails on all ranks if it fails on one. */
  private static void agree(Group group, Duration timeout, CollectiveStep.Step step) {
    CollectiveStep.exchange(group, CollectiveStep.attempt(step), new byte[0], timeout);
  }

  private static void await(Group group, long end, String what, BooleanSupplier condition) {
    while (!condition.getAsBoolean()) {
      for (int rank = 0; rank < group.size(); rank++) {
        if (!group.isAlive(rank)) {
          throw new NcclException(
              ErrorCode.NCCL_RANK_LOST,
              "rank %d is gone while NCCL creates %s: %s"
                  .formatted(rank, what, group.deathReport(rank)));
        }
      }
      if (Thread.currentThread().isInterrupted()) {
        throw new NcclException(
            ErrorCode.GROUP_INTERRUPTED, "the thread was interrupted while NCCL created " + what);
      }
      if (System.nanoTime() - end > 0) {
        throw new NcclException(
            ErrorCode.NCCL_TIMEOUT,
            "NCCL has not created "
                + what
                + " in time: check the firewall, set NCCL_SOCKET_IFNAME to the interface between"
                + " the hosts, and set NCCL_DEBUG=INFO for details");
      }
      LockSupport.parkNanos(LOOK_NANOS);
    }
  }

  /** Starts a slow task that close waits for. */
  synchronized void part(String name, Runnable work) {
    Thread thread = Thread.ofPlatform().daemon().name(name).unstarted(work);
    parting.add(thread);
    thread.start();
  }

  @Override
  public void close() {
    List<Thread> threads;
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
      for (NcclSimplexLink link : loose) {
        part("ep4j-nccl-end", link::close);
      }
      made.forEach(Carrier::close);
      threads = List.copyOf(parting);
    }
    CudaDevice opened = device;
    if (!end(threads)) {
      LOG.log(
          Level.WARNING,
          "NCCL has not freed all communicators; freeing continues in the background");
    } else if (opened != null) {
      opened.close();
    }
    try {
      Runtime.getRuntime().removeShutdownHook(atExit);
    } catch (IllegalStateException e) {
      // The process is exiting already: the hook finds nothing left to stop.
    }
  }

  /** Stops everything and frees nothing: the thread that drives the wire may still run. */
  private void leave() {
    List<NcclSimplexLink> links;
    synchronized (this) {
      links = new ArrayList<>(loose);
      for (NcclCarrier carrier : made) {
        links.add(carrier.out());
        links.add(carrier.in());
      }
    }
    links.forEach(NcclSimplexLink::stop);
    // A communicator must not be aborted during a call.
    long late = System.nanoTime() + LONGEST_CALL_NANOS;
    while (links.stream().anyMatch(NcclSimplexLink::calling) && System.nanoTime() - late < 0) {
      LockSupport.parkNanos(LOOK_NANOS);
    }
    List<Thread> threads = new ArrayList<>();
    for (NcclSimplexLink link : links) {
      threads.add(Thread.ofPlatform().daemon().name("ep4j-nccl-end").start(link::close));
    }
    boolean ignored = end(threads);
  }

  private static boolean end(List<Thread> threads) {
    boolean all = true;
    long end = System.nanoTime() + PARTING.toNanos();
    for (Thread thread : threads) {
      all &= ends(thread, end);
    }
    return all;
  }

  private static boolean ends(Thread thread, long end) {
    try {
      return thread.join(Duration.ofNanos(Math.max(1, end - System.nanoTime())));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }
}
