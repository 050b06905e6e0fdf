package org.ep4j.wire.tcp;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.ep4j.group.Group;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.PageArena;
import org.ep4j.memory.PrivateMemory;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.CollectiveStep;
import org.ep4j.wire.support.GroupWire;
import org.ep4j.wire.support.InFlightLimit;
import org.ep4j.wire.support.NumberedRegions;
import org.ep4j.wire.support.WireArguments;
import org.ep4j.wire.tcp.pipe.Pipe;
import org.jspecify.annotations.Nullable;

/** A wire over TCP connections: several to each peer, each carrying some of the lanes. */
final class TcpWire extends GroupWire {
  /** Time for which a closing rank waits until the peers have received its last frames. */
  private static final Duration LAST_WORDS = Duration.ofSeconds(1);

  // Holds the counters, and the views of the staging memory.
  private final Arena arena = Arena.ofShared();

  /** Staging buffers of all connections; a connection for words alone touches a page or two. */
  private final PrivateMemory staging;

  private final MemorySegment stagingBytes;
  private long staged;

  private final Counters counters;
  private final List<TcpRegion> regions = new CopyOnWriteArrayList<>();
  private final NumberedRegions<TcpRegion> exposed = new NumberedRegions<>();
  private final @Nullable CarrierService carriers;
  private final Lane[][] lanes;
  private final TcpProgressContext[] progressContexts;

  /**
   * A wire over authenticated connections.
   *
   * @param pipes by peer, then by index of the connection; none to this rank itself
   * @param carriers of the pipes; null if there are none
   */
  TcpWire(
      String name,
      Group group,
      WireConfig config,
      Pipe[][] pipes,
      @Nullable CarrierService carriers)
      throws IOException {
    super(name, group, config);
    this.carriers = carriers;
    counters = Counters.allocate(arena, config.counters());
    long connections = (long) (group.size() - 1) * config.connections();
    staging =
        PrivateMemory.reserveSparse(connections * (FrameReader.STAGING + FrameWriter.STAGING));
    stagingBytes = NativeMemory.view(staging.address(), staging.bytes(), arena);
    lanes = new Lane[group.size()][];
    List<List<Connection>> byProgressContext = new ArrayList<>();
    for (int progressContext = 0; progressContext < config.progressContexts(); progressContext++) {
      byProgressContext.add(new ArrayList<>());
    }
    for (int peer = 0; peer < pipes.length; peer++) {
      lanes[peer] = new Lane[peer == group.rank() ? 0 : config.lanes()];
      InFlightLimit[] windows = new InFlightLimit[config.progressContexts()];
      Arrays.setAll(windows, progressContext -> new InFlightLimit(config));
      for (int i = 0; peer != group.rank() && i < pipes[peer].length; i++) {
        int progressContext = i % config.progressContexts();
        int number = peer * config.connections() + i;
        Connection connection =
            new Connection(this, pipes[peer][i], peer, number, i, windows[progressContext]);
        byProgressContext.get(progressContext).add(connection);
        for (TcpLane lane : connection.lanes()) {
          lanes[peer][lane.index()] = lane;
        }
      }
    }
    progressContexts = opened(byProgressContext);
  }

  /** Opens the progress contexts; without descriptors for all of them, it leaves none open. */
  private TcpProgressContext[] opened(List<List<Connection>> byProgressContext) throws IOException {
    List<TcpProgressContext> opened = new ArrayList<>();
    boolean done = false;
    try {
      for (List<Connection> connections : byProgressContext) {
        opened.add(TcpProgressContext.open(group, connections));
      }
      done = true;
      return opened.toArray(TcpProgressContext[]::new);
    } finally {
      if (!done) {
        opened.forEach(TcpProgressContext::close);
        ClosingSteps.run(arena::close, staging::close);
      }
    }
  }

  /** The staging buffer of a connection in one direction. */
  MemorySegment staging(long bytes) {
    MemorySegment buffer = stagingBytes.asSlice(staged, bytes);
    staged += bytes;
    return buffer;
  }

  @Override
  public Lane lane(int peer, int index) {
    WireArguments.lane(peer, index, group.rank(), group.size(), config);
    return lanes[peer][index];
  }

  @Override
  public Region allocate(long bytes, Duration timeout) {
    requireOpen();
    PageArena owned = new PageArena();
    boolean done = false;
    try {
      Region region = exposed(hostMemory(owned, bytes, timeout), owned, timeout);
      done = true;
      return region;
    } finally {
      if (!done) {
        owned.close();
      }
    }
  }

  @Override
  public Region expose(WireMemory memory, Duration timeout) {
    requireOpen();
    String error = unreachable(memory);
    if (!error.isEmpty()) {
      // Throws on this rank and reports the reason to the other ranks.
      CollectiveStep.numbers(group, error, 0, timeout);
    }
    return exposed(memory, null, timeout);
  }

  /** Peers may put as soon as they know the region, so it is entered before they do. */
  private synchronized TcpRegion exposed(
      WireMemory memory, @Nullable PageArena owned, Duration timeout) {
    TcpRegion region = exposed.add(id -> region(id, memory, owned));
    boolean done = false;
    try {
      region.sizes(CollectiveStep.numbers(group, "", memory.bytes(), timeout));
      done = true;
      return region;
    } finally {
      if (!done) {
        forget(region);
      }
    }
  }

  @Override
  public Region register(WireMemory memory) {
    requireOpen();
    requireReadable(memory);
    return region(TcpRegion.LOCAL, memory, null);
  }

  private TcpRegion region(int id, WireMemory memory, @Nullable PageArena owned) {
    int users = 2 * config.connections() * group.size();
    TcpRegion region = new TcpRegion(this, id, memory, owned, users);
    regions.add(region);
    return region;
  }

  synchronized void forget(TcpRegion region) {
    regions.remove(region);
    if (region.exposed()) {
      exposed.remove(region.id());
    }
  }

  /** The region with this id; null if there is none. */
  @Nullable TcpRegion region(int id) {
    return exposed.get(id);
  }

  @Override
  public boolean registersFreely() {
    return carriers == null;
  }

  @Override
  public boolean exposes(WireMemory memory) {
    return memory.onHost();
  }

  /** Only this rank's own threads write incoming data, and not from a failed connection. */
  @Override
  public boolean severs() {
    return true;
  }

  @Override
  public Counters counters() {
    return counters;
  }

  @Override
  public int poll(int progressContext) {
    requireOpen();
    WireArguments.progressContext(progressContext, config);
    return progressContexts[progressContext].poll();
  }

  @Override
  public synchronized void close() {
    if (!shut()) {
      return;
    }
    ClosingSteps.run(
        this::sendGoodbye,
        () -> ClosingSteps.each(List.of(progressContexts), TcpWire::drop),
        this::release);
  }

  private void release() {
    // Carriers before the memory that they transfer: if one does not end, the memory stays.
    if (carriers != null) {
      carriers.close();
    }
    ClosingSteps.run(
        () -> ClosingSteps.each(regions, TcpRegion::close), arena::close, staging::close);
  }

  private static void drop(TcpProgressContext progressContext) {
    ClosingSteps.run(
        () -> ClosingSteps.each(List.of(progressContext.connections()), Connection::drop),
        progressContext::close);
  }

  /**
   * Ends all connections in good order: closing a socket with unread input would discard sent data.
   */
  private void sendGoodbye() {
    List<Connection> open = new ArrayList<>();
    for (TcpProgressContext progressContext : progressContexts) {
      for (Connection connection : progressContext.connections()) {
        connection.stop();
        open.add(connection);
      }
    }
    List<Connection> ending = new ArrayList<>(open);
    ByteBuffer sink = arena.allocate(64 << 10).asByteBuffer();
    long end = System.nanoTime() + LAST_WORDS.toNanos();
    while (!(open.isEmpty() && ending.isEmpty()) && System.nanoTime() - end < 0) {
      open.removeIf(Connection::sendGoodbye);
      ending.removeIf(connection -> connection.drain(sink));
      Thread.yield();
    }
  }
}
