package org.ep4j.plan.simulation;

import org.ep4j.plan.Operation;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.ProfileConstant;

/**
 * A high-throughput dispatch between nodes. A chunk leaves its source for a node as soon as the
 * ring there has a slot, crosses to the GPU with the index of the source, and goes from there to
 * each rank of the node that wants rows of it. Then the slot returns.
 *
 * <p>A source sends one chunk to each node in turn, from the node behind its own on, and leaves out
 * nodes whose ring is full.
 */
final class InternodeDispatch {
  private static final int SEND = 0;
  private static final int NIC_IN = 1;
  private static final int FORWARD = 2;
  private static final int NVLINK_IN = 3;
  private static final int DELIVER = 4;
  private static final int CREDIT = 5;

  private final EventQueue queue;
  private final Servers servers;
  private final Chunks chunks;
  private final Rings rings;
  private final int ranks;
  private final int nodes;
  private final int onNode;
  private final double hop;

  /** Index: source x nodes + node. */
  private final int[] unsent;

  private final int[] inRing;

  private final int[] offset;
  private final int[] unsentOfSource;
  private final boolean[] waits;

  InternodeDispatch(
      Operation operation, EventQueue queue, Servers servers, Chunks chunks, Rings rings) {
    PlanRequest request = operation.request();
    this.queue = queue;
    this.servers = servers;
    this.chunks = chunks;
    this.rings = rings;
    ranks = request.ranks();
    nodes = request.nodes();
    onNode = request.ranksPerNode();
    hop = operation.value(ProfileConstant.HOP_US);
    unsent = new int[ranks * nodes];
    inRing = new int[ranks * nodes];
    offset = new int[ranks];
    unsentOfSource = new int[ranks];
    waits = new boolean[ranks];
    for (int source = 0; source < ranks; source++) {
      for (int node = 0; node < nodes; node++) {
        int count = chunks.count(source, node);
        unsent[source * nodes + node] = count;
        unsentOfSource[source] += count;
      }
      double start = servers.start(source, operation.kernelMicros() + operation.incastMicros());
      servers.closeUntil(Resource.SM_OUT, source, start);
      servers.closeUntil(Resource.SM_IN, source, start);
      queue.add(start, ChunkEvent.of(SEND, source, 0));
    }
  }

  void run() {
    while (queue.poll()) {
      double now = queue.time();
      long event = queue.event();
      int source = ChunkEvent.source(event);
      int target = ChunkEvent.target(event);
      switch (ChunkEvent.kind(event)) {
        case SEND -> send(now, source);
        case NIC_IN -> {
          double rows = rows(source, target);
          double done = servers.serve(Resource.NIC_IN, entry(source, target), now, rows);
          queue.add(done, ChunkEvent.of(FORWARD, source, target));
        }
        case FORWARD -> forward(now, source, target);
        case NVLINK_IN -> {
          double done = servers.serve(Resource.NVLINK_IN, target, now, part(source, target));
          queue.add(done, ChunkEvent.of(DELIVER, source, target));
        }
        case DELIVER -> {
          double rows = part(source, target);
          servers.deliver(servers.serve(Resource.MEMORY_IN, target, now, rows), rows);
        }
        default -> credit(now, source, target);
      }
    }
  }

  private void send(double now, int source) {
    int node = nextNode(source);
    if (node < 0) {
      waits[source] = unsentOfSource[source] > 0;
      return;
    }
    int pair = source * nodes + node;
    unsent[pair]--;
    unsentOfSource[source]--;
    double rows = rows(source, node);
    double parts = chunks.nodeParts(source, node, chunks.count(source, node));
    double read = servers.serve(Resource.MEMORY_OUT, source, now, parts);
    double ready = Math.max(read, servers.serve(Resource.SM_OUT, source, now, rows));
    double next = ready;
    if (node == source / onNode) {
      queue.add(ready, ChunkEvent.of(FORWARD, source, node));
    } else {
      inRing[pair]++;
      double sent = servers.serve(Resource.NIC_OUT, source, ready, rows);
      queue.add(sent + hop, ChunkEvent.of(NIC_IN, source, node));
      // SMs run one chunk ahead of the NIC.
      next = Math.max(ready, sent - servers.micros(Resource.NIC_OUT, source, rows));
    }
    queue.add(next, ChunkEvent.of(SEND, source, 0));
  }

  /** The next node with an unsent chunk and a slot for it, or -1. */
  private int nextNode(int source) {
    int own = source / onNode;
    int first = source * nodes;
    for (int tried = 0; tried < nodes; tried++) {
      int node = own + 1 + offset[source];
      node = node >= nodes ? node - nodes : node;
      offset[source] = offset[source] + 1 == nodes ? 0 : offset[source] + 1;
      boolean room = node == own || rings.slots() == 0 || inRing[first + node] < rings.slots();
      if (room && unsent[first + node] > 0) {
        return node;
      }
    }
    return -1;
  }

  private void forward(double now, int source, int node) {
    int entry = entry(source, node);
    int count = chunks.count(source, node);
    double ready = servers.serve(Resource.SM_IN, entry, now, chunks.pairRows(source, node) / count);
    double last = ready;
    int base = node * onNode;
    for (int i = 0; i < onNode; i++) {
      int target = base + (entry - base + i) % onNode;
      double rows = chunks.partRows(source, target, count);
      if (rows == 0) {
        continue;
      }
      if (target == entry) {
        queue.add(ready, ChunkEvent.of(DELIVER, source, target));
      } else {
        last = servers.serve(Resource.NVLINK_OUT, entry, ready, rows);
        queue.add(last + hop, ChunkEvent.of(NVLINK_IN, source, target));
      }
    }
    // A pair that never fills its ring needs no credits.
    if (node != source / onNode && rings.slots() > 0 && count > rings.slots()) {
      queue.add(last + rings.creditMicros(), ChunkEvent.of(CREDIT, source, node));
    }
  }

  private void credit(double now, int source, int node) {
    inRing[source * nodes + node]--;
    if (waits[source]) {
      waits[source] = false;
      send(now, source);
    }
  }

  private int entry(int source, int node) {
    return node * onNode + source % onNode;
  }

  private double rows(int source, int node) {
    return chunks.pairRows(source, node) / chunks.count(source, node);
  }

  private double part(int source, int target) {
    return chunks.partRows(source, target, chunks.count(source, target / onNode));
  }
}
