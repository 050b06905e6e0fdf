package org.ep4j.plan.simulation;

import org.ep4j.plan.Operation;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.ProfileConstant;

/**
 * A high-throughput combine between nodes: the chunks of the dispatch in the other direction. The
 * ranks of a node send their parts of a chunk over NVLink to the GPU with the index of its source.
 * Once all have arrived, that GPU sums them and sends the sum home as soon as the ring there has a
 * slot; the source adds the sums of all nodes.
 *
 * <p>A rank sends the parts of one chunk of each source of a node, then of the next node, from the
 * node behind its own on.
 */
final class InternodeCombine {
  private static final int GATHER = 0;
  private static final int NVLINK_IN = 1;
  private static final int OWN_PART = 2;
  private static final int SUM = 3;
  private static final int NIC_IN = 4;
  private static final int RETURN = 5;
  private static final int CREDIT = 6;

  private final EventQueue queue;
  private final Servers servers;
  private final Chunks chunks;
  private final Rings rings;
  private final int nodes;
  private final int onNode;
  private final double hop;

  /** Index: source x nodes + node. */
  private final int[] firstChunk;

  private final int[] inRing;
  private final int[] waiting;

  /** Index: first of the pair + number. */
  private final short[] missingParts;

  private final double[] arrived;

  /** Steps of a rank: chunk x nodes + node, from its own on. */
  private final int[] step;

  private final int maxCount;

  InternodeCombine(
      Operation operation, EventQueue queue, Servers servers, Chunks chunks, Rings rings) {
    PlanRequest request = operation.request();
    this.queue = queue;
    this.servers = servers;
    this.chunks = chunks;
    this.rings = rings;
    nodes = request.nodes();
    onNode = request.ranksPerNode();
    hop = operation.value(ProfileConstant.HOP_US);
    int ranks = request.ranks();
    firstChunk = new int[ranks * nodes];
    inRing = new int[ranks * nodes];
    waiting = new int[ranks * nodes];
    step = new int[ranks];
    int total = 0;
    int max = 0;
    for (int pair = 0; pair < firstChunk.length; pair++) {
      int count = chunks.count(pair / nodes, pair % nodes);
      firstChunk[pair] = total;
      total += count;
      max = Math.max(max, count);
    }
    maxCount = max;
    missingParts = new short[total];
    arrived = new double[total];
    for (int pair = 0; pair < firstChunk.length; pair++) {
      int count = chunks.count(pair / nodes, pair % nodes);
      short parts = 0;
      for (int i = 0; count > 0 && i < onNode; i++) {
        int rank = pair % nodes * onNode + i;
        if (chunks.partRows(pair / nodes, rank, count) > 0) {
          parts++;
        }
      }
      for (int chunk = 0; chunk < count; chunk++) {
        missingParts[firstChunk[pair] + chunk] = parts;
      }
    }
    for (int rank = 0; rank < ranks; rank++) {
      double start = servers.start(rank, operation.kernelMicros() + operation.incastMicros());
      servers.closeUntil(Resource.SM_OUT, rank, start);
      servers.closeUntil(Resource.SM_IN, rank, start);
      queue.add(start, ChunkEvent.of(GATHER, rank, 0));
    }
  }

  void run() {
    while (queue.poll()) {
      double now = queue.time();
      long event = queue.event();
      int source = ChunkEvent.source(event);
      int target = ChunkEvent.target(event);
      switch (ChunkEvent.kind(event)) {
        case GATHER -> gather(now, source);
        case NVLINK_IN -> {
          int node = target / onNode;
          double rows = chunks.partRows(source, target, chunks.count(source, node));
          double done = servers.serve(Resource.NVLINK_IN, entry(source, node), now, rows);
          arrive(done, source, node, ChunkEvent.chunk(event));
        }
        case OWN_PART -> arrive(now, source, target / onNode, ChunkEvent.chunk(event));
        case SUM -> sum(now, source, target);
        case NIC_IN -> {
          double done = servers.serve(Resource.NIC_IN, source, now, rows(source, target));
          queue.add(done, ChunkEvent.of(RETURN, source, target));
        }
        case RETURN -> finish(now, source, target);
        default -> credit(now, source, target);
      }
    }
  }

  /** A rank sends its parts of one chunk of each source of a node. */
  private void gather(double now, int rank) {
    int own = rank / onNode;
    int chunk = step[rank] / nodes;
    if (chunk == maxCount) {
      return;
    }
    int node = (own + 1 + step[rank] % nodes) % nodes;
    step[rank]++;
    double next = now;
    for (int i = 0; i < onNode; i++) {
      int index = (rank + 1 + i) % onNode;
      int source = node * onNode + index;
      int count = chunks.count(source, own);
      double rows = chunk < count ? chunks.partRows(source, rank, count) : 0;
      if (rows == 0) {
        continue;
      }
      double ready = servers.serve(Resource.MEMORY_OUT, rank, now, rows);
      if (index == rank % onNode) {
        queue.add(ready, ChunkEvent.of(OWN_PART, source, rank, chunk));
      } else {
        ready = Math.max(ready, servers.serve(Resource.NVLINK_OUT, rank, now, rows));
        queue.add(ready + hop, ChunkEvent.of(NVLINK_IN, source, rank, chunk));
      }
      next = Math.max(next, ready);
    }
    queue.add(next, ChunkEvent.of(GATHER, rank, 0));
  }

  private void arrive(double at, int source, int node, int chunk) {
    int index = firstChunk[source * nodes + node] + chunk;
    arrived[index] = Math.max(arrived[index], at);
    if (--missingParts[index] == 0) {
      queue.add(arrived[index], ChunkEvent.of(SUM, source, node));
    }
  }

  private void sum(double now, int source, int node) {
    int pair = source * nodes + node;
    if (node == source / onNode) {
      double summed = servers.serve(Resource.SM_OUT, source, now, rows(source, node));
      queue.add(summed, ChunkEvent.of(RETURN, source, node));
    } else if (rings.slots() > 0 && inRing[pair] == rings.slots()) {
      waiting[pair]++;
    } else {
      inRing[pair]++;
      int entry = entry(source, node);
      double rows = rows(source, node);
      double summed = servers.serve(Resource.SM_OUT, entry, now, rows);
      double sent = servers.serve(Resource.NIC_OUT, entry, summed, rows);
      queue.add(sent + hop, ChunkEvent.of(NIC_IN, source, node));
    }
  }

  private void finish(double now, int source, int node) {
    int count = chunks.count(source, node);
    double parts = chunks.nodeParts(source, node, count);
    double added = servers.serve(Resource.SM_IN, source, now, rows(source, node));
    servers.deliver(servers.serve(Resource.MEMORY_IN, source, added, parts), parts);
    // A pair that never fills its ring needs no credits.
    if (node != source / onNode && rings.slots() > 0 && count > rings.slots()) {
      queue.add(added + rings.creditMicros(), ChunkEvent.of(CREDIT, source, node));
    }
  }

  private void credit(double now, int source, int node) {
    int pair = source * nodes + node;
    inRing[pair]--;
    if (waiting[pair] > 0) {
      waiting[pair]--;
      sum(now, source, node);
    }
  }

  private int entry(int source, int node) {
    return node * onNode + source % onNode;
  }

  private double rows(int source, int node) {
    return chunks.pairRows(source, node) / chunks.count(source, node);
  }
}
