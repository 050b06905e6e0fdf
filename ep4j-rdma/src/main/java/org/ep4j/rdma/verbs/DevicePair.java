package org.ep4j.rdma.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.concurrent.ThreadLocalRandom;
import org.ep4j.rdma.verbs.bindings.Verbs;
import org.ep4j.rdma.verbs.bindings.VerbsConstants;
import org.ep4j.rdma.verbs.bindings.VerbsControlLayout;
import org.ep4j.rdma.verbs.bindings.VerbsLayouts;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.ep4j.wire.WireException;

/** A queue pair of the device, from creation to destruction. */
final class DevicePair implements AutoCloseable {
  private static final int FIRST_PACKETS = 1 << 24;

  /** Inline sizes in order of preference; devices differ. */
  private static final int[] INLINE = {220, 64, VerbsControlLayout.MESSAGE_BYTES};

  private final OpenPort port;
  private final int firstPacket = ThreadLocalRandom.current().nextInt(FIRST_PACKETS);
  private final int inline;
  private long handle;

  /** Creates a queue pair for {@code depth} requests and {@code depth + 1} receives. */
  DevicePair(OpenPort port, CompletionQueue completions, int depth) {
    this.port = port;
    try (Arena arena = Arena.ofConfined()) {
      inline = create(arena.allocate(VerbsLayouts.QUEUE_PAIR_REQUEST), completions, depth);
    }
    boolean done = false;
    try {
      PairStates.initialise(handle, port.number());
      done = true;
    } finally {
      if (!done) {
        close();
      }
    }
  }

  /**
   * Creates the queue pair with the largest inline size that the device grants; returns that size.
   */
  private int create(MemorySegment request, CompletionQueue completions, int depth) {
    for (int i = 0; ; i++) {
      put(request, "cap.max_send_wr", depth);
      put(request, "cap.max_recv_wr", depth + 1);
      put(request, "cap.max_send_sge", 1);
      put(request, "cap.max_recv_sge", 1);
      put(request, "cap.max_inline_data", INLINE[i]);
      put(request, "qp_type", VerbsConstants.IBV_QPT_RC);
      for (String queue : new String[] {"send_cq", "recv_cq"}) {
        long offset = VerbsLayouts.offset(VerbsLayouts.QUEUE_PAIR_REQUEST, queue);
        request.set(ValueLayout.JAVA_LONG, offset, completions.handle());
      }
      try {
        handle = Verbs.createQueuePair(port.domain(), request);
        return INLINE[i];
      } catch (WireException e) {
        if (i == INLINE.length - 1) {
          throw e;
        }
      }
    }
  }

  private static void put(MemorySegment request, String member, int value) {
    long offset = VerbsLayouts.offset(VerbsLayouts.QUEUE_PAIR_REQUEST, member);
    request.set(ValueLayout.JAVA_INT, offset, value);
  }

  /** Address for the other end. */
  PairAddress address(MemorySegment block, int blockKey) {
    long number = VerbsLayouts.offset(VerbsLayouts.QUEUE_PAIR_OBJECT, "qp_num");
    return new PairAddress(
        Verbs.memory(handle, VerbsLayouts.QUEUE_PAIR_OBJECT.byteSize())
            .get(ValueLayout.JAVA_INT, number),
        firstPacket,
        block.address(),
        blockKey);
  }

  void connect(PortAddress peersPort, PairAddress peersPair, RdmaSettings settings) {
    PairStates.connect(handle, port, peersPort, peersPair, settings);
    PairStates.letSend(handle, firstPacket, settings);
  }

  /** Maximum inline bytes of a request. */
  int inline() {
    return inline;
  }

  /** Posts all receives, once. */
  void postReceives(ReceiveRing receives) {
    receives.postAll(port.receiveFunction, handle);
  }

  /** Reposts used receives; returns 0 or an error number. */
  int renew(ReceiveRing receives) {
    return receives.renew(port.receiveFunction, handle);
  }

  /** Posts requests; returns 0 or an error number. */
  int post(RequestBatch batch) {
    return batch.post(port.sendFunction, handle);
  }

  /** Stops the queue pair: the device returns all requests, done or not. */
  void stop() {
    if (handle != 0) {
      PairStates.fail(handle);
    }
  }

  /** Whether the queue pair exists. */
  boolean open() {
    return handle != 0;
  }

  @Override
  public void close() {
    if (handle != 0) {
      long closing = handle;
      // Also after a failure: a device that refuses once refuses again.
      handle = 0;
      Verbs.destroyQueuePair(closing);
    }
  }
}
