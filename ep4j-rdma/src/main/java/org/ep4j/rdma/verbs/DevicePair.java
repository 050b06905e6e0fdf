package org.ep4j.rdma.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.concurrent.ThreadLocalRandom;
import org.ep4j.wire.WireException;

/** A queue pair as the device knows it, from made to destroyed. */
final class DevicePair implements AutoCloseable {
  private static final int FIRST_PACKETS = 1 << 24;

  /** Bytes that may lie inside a request, best first; devices differ. */
  private static final int[] INLINE = {220, 64, VerbsControlLayout.MESSAGE_BYTES};

  private final OpenPort port;
  private final int firstPacket = ThreadLocalRandom.current().nextInt(FIRST_PACKETS);
  private final int inline;
  private long handle;

  /** One that holds {@code depth} requests, and a receive more. */
  DevicePair(OpenPort port, CompletionQueue completions, int depth) {
    this.port = port;
    try (Arena arena = Arena.ofConfined()) {
      inline = create(arena.allocate(VerbsLayouts.QUEUE_PAIR_REQUEST), completions, depth);
    }
    PairStates.initialise(handle, port.number());
  }

  /** Makes it with as many bytes inside a request as the device grants; returns that number. */
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

  /** Where it is, for the other end. */
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

  /** Bytes that fit inside a request. */
  int inline() {
    return inline;
  }

  /** Posts all receives, once. */
  void postReceives(ReceiveRing receives) {
    receives.postAll(port.receiveFunction, handle);
  }

  /** Posts used receives anew; 0 or an error number. */
  int renew(ReceiveRing receives) {
    return receives.renew(port.receiveFunction, handle);
  }

  /** Posts requests; 0 or an error number. */
  int post(RequestBatch batch) {
    return batch.post(port.sendFunction, handle);
  }

  /** Stops it: the device returns everything that it holds, done or not. */
  void stop() {
    if (handle != 0) {
      PairStates.fail(handle);
    }
  }

  /** Whether the device still has it. */
  boolean open() {
    return handle != 0;
  }

  @Override
  public void close() {
    if (handle != 0) {
      Verbs.destroyQueuePair(handle);
      handle = 0;
    }
  }
}
