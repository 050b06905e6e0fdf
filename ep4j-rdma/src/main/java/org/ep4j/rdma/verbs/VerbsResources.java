package org.ep4j.rdma.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.ep4j.WirePath;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.rdma.verbs.bindings.Verbs;
import org.ep4j.rdma.verbs.bindings.VerbsControlLayout;
import org.ep4j.rdma.verbs.ports.PortChoice;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.ep4j.wire.Counters;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.InFlightLimit;

/**
 * Device resources of a wire: ports, queues, memory of control words. Owns them and releases them
 * in the order that the library requires. Within a progress context, {@link LaneMap} numbers the
 * queue pairs to a peer; this rank has none to itself.
 */
final class VerbsResources implements AutoCloseable {
  private final int rank;
  private final int size;
  private final WireConfig config;
  private final LaneMap map;
  private final Arena arena = Arena.ofShared();
  private final Counters counters;
  private final OpenPort[] ports;
  private final List<Long> registrations = new ArrayList<>();
  private final List<CompletionQueue> completions = new ArrayList<>();
  private final List<QueuePair[]> pairs = new ArrayList<>();
  private boolean closed;

  /** Opens the ports of a rank and creates its queue pairs, not yet connected. */
  VerbsResources(int rank, int size, WireConfig config, RdmaSettings settings, PortChoice chosen) {
    this.rank = rank;
    this.size = size;
    this.config = config;
    int count = chosen.ports().size();
    map =
        new LaneMap(config.progressContexts(), count, settings.queuePairsPerPort(), chosen.first());
    counters = Counters.allocate(arena, config.counters());
    ports = new OpenPort[count];
    try {
      for (int i = 0; i < ports.length; i++) {
        ports[i] = OpenPort.open(chosen.ports().get(i), settings);
      }
      for (int progressContext = 0;
          progressContext < config.progressContexts();
          progressContext++) {
        makeProgressContext(settings);
      }
    } catch (RuntimeException | Error e) {
      // An error of closing must not hide why opening failed.
      ClosingSteps.run(
          () -> {
            throw e;
          },
          this::close);
    }
  }

  private void makeProgressContext(RdmaSettings settings) {
    int perPort = settings.queuePairsPerPort() * (size - 1);
    int entries = Math.max(1, perPort * (2 * settings.depth() + 1));
    CompletionQueue[] queues = new CompletionQueue[ports.length];
    long blockBytes = VerbsControlLayout.bytes(settings.depth() + 1);
    MemorySegment blocks =
        arena.allocate(Math.max(1, blockBytes * map.queuePairs() * (size - 1)), 64);
    int[] keys = new int[ports.length];
    for (int i = 0; i < ports.length; i++) {
      ports[i].require(settings.depth() + 1, entries);
      queues[i] = new CompletionQueue(ports[i], entries, arena);
      completions.add(queues[i]);
      long registration = ports[i].register(WireMemory.host(blocks), true);
      registrations.add(registration);
      keys[i] = OpenPort.remoteKey(registration);
    }
    RequestBatch batch = new RequestBatch(arena);
    QueuePair[] made = new QueuePair[map.queuePairs() * (size - 1)];
    pairs.add(made);
    for (int index = 0; index < made.length; index++) {
      int port = map.port(index % map.queuePairs());
      int nth = index / map.queuePairs();
      QueuePair.Slot place =
          new QueuePair.Slot(
              ports[port],
              port,
              queues[port],
              nth < rank ? nth : nth + 1,
              index,
              batch,
              counters,
              blocks.asSlice(blockBytes * index, blockBytes),
              keys[port]);
      made[index] = new QueuePair(place, settings, arena);
    }
  }

  /** Index of the first queue pair of a progress context to a peer. */
  private int first(int peer) {
    return (peer < rank ? peer : peer - 1) * map.queuePairs();
  }

  /** Addresses for the peers. */
  byte[] offer() {
    int bytes =
        ports.length * PortAddress.BYTES
            + config.progressContexts() * map.queuePairs() * (size - 1) * PairAddress.BYTES;
    ByteBuffer offer = ByteBuffer.allocate(bytes);
    for (OpenPort port : ports) {
      port.address().put(offer);
    }
    for (QueuePair[] progressContext : pairs) {
      for (QueuePair pair : progressContext) {
        pair.address().put(offer);
      }
    }
    return offer.array();
  }

  /** Connects the queue pairs to a peer with its addresses. */
  void connect(int peer, byte[] bytes, RdmaSettings settings) {
    ByteBuffer offer = ByteBuffer.wrap(bytes);
    PortAddress[] peersPorts = new PortAddress[ports.length];
    for (int i = 0; i < peersPorts.length; i++) {
      peersPorts[i] = PortAddress.get(offer);
    }
    int pairsOfProgressContext = map.queuePairs() * (size - 1);
    int peersFirst = (rank < peer ? rank : rank - 1) * map.queuePairs();
    for (int progressContext = 0; progressContext < config.progressContexts(); progressContext++) {
      for (int i = 0; i < map.queuePairs(); i++) {
        int at = progressContext * pairsOfProgressContext + peersFirst + i;
        offer.position(ports.length * PortAddress.BYTES + at * PairAddress.BYTES);
        pairs.get(progressContext)[first(peer) + i].connect(
            peersPorts[map.port(i)], PairAddress.get(offer), settings);
      }
    }
  }

  /** Creates the lanes of a progress context, and adds them to their queue pairs. */
  void makeLanes(VerbsWire wire, int progressContext, VerbsLane[][] all) {
    for (int peer = 0; peer < size; peer++) {
      if (peer == rank) {
        continue;
      }
      InFlightLimit window = new InFlightLimit(config);
      List<List<VerbsLane>> carried = new ArrayList<>();
      for (int i = 0; i < map.queuePairs(); i++) {
        carried.add(new ArrayList<>());
      }
      for (int index = progressContext;
          index < config.lanes();
          index += config.progressContexts()) {
        int number = map.queuePair(index);
        QueuePair pair = pairs.get(progressContext)[first(peer) + number];
        all[peer][index] = new VerbsLane(wire, pair, window, peer, index);
        carried.get(number).add(all[peer][index]);
      }
      for (int i = 0; i < map.queuePairs(); i++) {
        pairs.get(progressContext)[first(peer) + i].carry(carried.get(i).toArray(VerbsLane[]::new));
      }
    }
  }

  Counters counters() {
    return counters;
  }

  OpenPort[] ports() {
    return ports;
  }

  QueuePair[] pairs(int progressContext) {
    return pairs.get(progressContext);
  }

  /** What each queue pair has sent; a peer's are numbered over all progress contexts. */
  List<WirePath> paths() {
    List<WirePath> paths = new ArrayList<>();
    for (int progressContext = 0; progressContext < pairs.size(); progressContext++) {
      for (QueuePair pair : pairs.get(progressContext)) {
        int number = progressContext * map.queuePairs() + pair.index() % map.queuePairs();
        paths.add(new WirePath(pair.peer(), pair.port(), number, pair.putBytes()));
      }
    }
    return paths;
  }

  /** Queue pairs of a progress context to each peer. */
  int pairsPerPeer() {
    return map.queuePairs();
  }

  CompletionQueue[] completions(int progressContext) {
    int from = progressContext * ports.length;
    return completions.subList(from, from + ports.length).toArray(CompletionQueue[]::new);
  }

  /** Stops all traffic: afterwards no device accesses memory of this rank. */
  void closePairs() {
    ClosingSteps.each(
        pairs.stream().flatMap(Arrays::stream).filter(Objects::nonNull).toList(), QueuePair::close);
  }

  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    // Devices write into the arena while a queue pair exists.
    closePairs();
    ClosingSteps.run(
        () -> ClosingSteps.each(completions, CompletionQueue::close),
        () -> ClosingSteps.each(registrations, Verbs::deregister),
        () -> ClosingSteps.each(Arrays.asList(ports), OpenPort::close),
        arena::close);
  }
}
