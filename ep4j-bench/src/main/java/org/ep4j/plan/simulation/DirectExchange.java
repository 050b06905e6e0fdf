package org.ep4j.plan.simulation;

import org.ep4j.plan.Operation;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.ProfileConstant;

/**
 * Rows that go straight from a rank to another, to a place of their own: high throughput on one
 * node, and low latency. NVLink and NIC of a rank send side by side, each one chunk to each rank in
 * turn, from the rank behind its own on.
 */
final class DirectExchange {
  private static final int SEND = 0;
  private static final int LINK_IN = 1;
  private static final int DELIVER = 2;

  private final EventQueue queue;
  private final Servers servers;
  private final Chunks chunks;
  private final boolean reversed;
  private final int ranks;
  private final int onNode;
  private final double hop;

  /** Index: sender x ranks + receiver. */
  private final int[] unsent;

  /** Index: sender x 2 + link. */
  private final int[] offset;

  private final int[] unsentOfLink;

  /**
   * @param reversed a combine: rows return to the ranks of their tokens
   */
  DirectExchange(
      Operation operation, boolean reversed, EventQueue queue, Servers servers, Chunks chunks) {
    PlanRequest request = operation.request();
    this.queue = queue;
    this.servers = servers;
    this.chunks = chunks;
    this.reversed = reversed;
    ranks = request.ranks();
    onNode = request.ranksPerNode();
    boolean lowLatency = request.kind() == PlanKind.LL;
    // The fixed time of low latency holds the hop.
    hop = lowLatency ? 0 : operation.value(ProfileConstant.HOP_US);
    unsent = new int[ranks * ranks];
    offset = new int[2 * ranks];
    unsentOfLink = new int[2 * ranks];
    double[] fixed = lowLatency ? lowLatencyFixed(operation) : highThroughputFixed(operation);
    for (int sender = 0; sender < ranks; sender++) {
      for (int receiver = 0; receiver < ranks; receiver++) {
        int count = count(sender, receiver);
        unsent[sender * ranks + receiver] = count;
        unsentOfLink[2 * sender + link(sender, receiver)] += count;
      }
      for (int link = 0; link < 2; link++) {
        if (unsentOfLink[2 * sender + link] > 0) {
          double start = servers.start(sender, fixed[link]);
          queue.add(start, ChunkEvent.of(SEND, sender, link));
        }
      }
      double start = servers.start(sender, fixed[0]);
      servers.closeUntil(Resource.SM_OUT, sender, start);
      servers.closeUntil(Resource.SM_IN, sender, start);
    }
  }

  private static double[] highThroughputFixed(Operation operation) {
    return new double[] {operation.kernelMicros() + operation.incastMicros(), 0};
  }

  private static double[] lowLatencyFixed(Operation operation) {
    PlanRequest request = operation.request();
    int onNode = request.ranksPerNode();
    return new double[] {
      operation.value(ProfileConstant.LL_NVLINK_US)
          + (onNode - 1) * operation.value(ProfileConstant.LL_NVLINK_PEER_US),
      operation.value(ProfileConstant.LL_NIC_US)
          + (request.ranks() - onNode) * operation.value(ProfileConstant.LL_NIC_PEER_US)
    };
  }

  void run() {
    while (queue.poll()) {
      double now = queue.time();
      long event = queue.event();
      int sender = ChunkEvent.source(event);
      int receiver = ChunkEvent.target(event);
      switch (ChunkEvent.kind(event)) {
        case SEND -> send(now, sender, receiver);
        case LINK_IN -> {
          Resource in = link(sender, receiver) == 0 ? Resource.NVLINK_IN : Resource.NIC_IN;
          double done = servers.serve(in, receiver, now, rows(sender, receiver));
          queue.add(done, ChunkEvent.of(DELIVER, sender, receiver));
        }
        default -> {
          double rows = rows(sender, receiver);
          double taken = servers.serve(Resource.SM_IN, receiver, now, rows);
          servers.deliver(servers.serve(Resource.MEMORY_IN, receiver, taken, rows), rows);
        }
      }
    }
  }

  private void send(double now, int sender, int link) {
    if (unsentOfLink[2 * sender + link] == 0) {
      return;
    }
    int receiver = nextReceiver(sender, link);
    unsent[sender * ranks + receiver]--;
    unsentOfLink[2 * sender + link]--;
    double rows = rows(sender, receiver);
    double read = servers.serve(Resource.MEMORY_OUT, sender, now, rows);
    double ready = Math.max(read, servers.serve(Resource.SM_OUT, sender, now, rows));
    double next = ready;
    if (receiver == sender) {
      queue.add(ready, ChunkEvent.of(DELIVER, sender, receiver));
    } else {
      Resource out = link == 0 ? Resource.NVLINK_OUT : Resource.NIC_OUT;
      double sent = servers.serve(out, sender, ready, rows);
      queue.add(sent + hop, ChunkEvent.of(LINK_IN, sender, receiver));
      // SMs run one chunk ahead of the link.
      next = Math.max(ready, sent - servers.micros(out, sender, rows));
    }
    queue.add(next, ChunkEvent.of(SEND, sender, link));
  }

  /** The next receiver over a link with an unsent chunk; there is one. */
  private int nextReceiver(int sender, int link) {
    int cursor = 2 * sender + link;
    while (true) {
      int receiver = sender + 1 + offset[cursor];
      receiver = receiver >= ranks ? receiver - ranks : receiver;
      offset[cursor] = offset[cursor] + 1 == ranks ? 0 : offset[cursor] + 1;
      if (unsent[sender * ranks + receiver] > 0 && link(sender, receiver) == link) {
        return receiver;
      }
    }
  }

  /** 0: NVLink, or no link at all; 1: NIC. */
  private int link(int sender, int receiver) {
    return sender / onNode == receiver / onNode ? 0 : 1;
  }

  private int count(int sender, int receiver) {
    return reversed ? chunks.count(receiver, sender) : chunks.count(sender, receiver);
  }

  private double rows(int sender, int receiver) {
    double rows = reversed ? chunks.pairRows(receiver, sender) : chunks.pairRows(sender, receiver);
    return rows / count(sender, receiver);
  }
}
