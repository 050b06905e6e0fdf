package org.ep4j.rdma.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.error.ErrorCode;
import org.ep4j.rdma.verbs.bindings.VerbsConstants;
import org.ep4j.rdma.verbs.bindings.VerbsControlLayout;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.ep4j.wire.Counters;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.WireException;
import org.jspecify.annotations.Nullable;

/**
 * One end of a reliable connection with its lanes, driven by its progress context. {@link
 * VerbsControlLayout} defines the protocol.
 */
final class QueuePair implements AutoCloseable {
  private final OpenPort port;
  private final int peer;
  private final int index;
  private final Counters counters;
  private final int depth;
  private final MemorySegment block;
  private final int blockKey;
  private final CompletionQueue completions;
  private final DevicePair device;
  private final VerbsSendQueue sendQueue;
  private final ReceiveRing receives;

  /**
   * Handled receives that were announced to the peer, and receives that the device returned unused.
   */
  private long announced;

  private int unused;

  private @Nullable Cause broken;
  private String reason = "";
  private boolean goodbyeSent;
  private @Nullable QueuePairFailover failover;

  /** Position, shared resources and size of a queue pair. */
  record Slot(
      OpenPort port,
      int portIndex,
      CompletionQueue completions,
      int peer,
      int index,
      RequestBatch batch,
      Counters counters,
      MemorySegment block,
      int blockKey) {}

  QueuePair(Slot place, RdmaSettings settings, Arena arena) {
    port = place.port();
    peer = place.peer();
    index = place.index();
    counters = place.counters();
    depth = settings.depth();
    block = place.block();
    blockKey = place.blockKey();
    completions = place.completions();
    receives = new ReceiveRing(index, depth + 1, block.address(), blockKey, arena);
    device = new DevicePair(port, completions, depth);
    sendQueue = new VerbsSendQueue(place, depth, device.inline());
    boolean done = false;
    try {
      device.postReceives(receives);
      done = true;
    } finally {
      if (!done) {
        device.close();
      }
    }
  }

  /** Address for the other end. */
  PairAddress address() {
    return device.address(block, blockKey);
  }

  void connect(PortAddress peersPort, PairAddress peersPair, RdmaSettings settings) {
    sendQueue.connect(peersPair);
    device.connect(peersPort, peersPair, settings);
  }

  void carry(VerbsLane[] carried) {
    sendQueue.carry(carried);
  }

  /** Sets the receiver of messages about lost queue pairs. */
  void report(QueuePairFailover to) {
    failover = to;
  }

  int peer() {
    return peer;
  }

  VerbsLane[] lanes() {
    return sendQueue.lanes();
  }

  int index() {
    return index;
  }

  String port() {
    return port.name();
  }

  /** Bytes of puts handed to the device. Any thread. */
  long putBytes() {
    return sendQueue.putBytes();
  }

  /** Whether the queue pair works. */
  boolean works() {
    return broken == null;
  }

  /** Cause of the failure; null while the queue pair works. */
  @Nullable Cause broken() {
    return broken;
  }

  String reason() {
    return reason;
  }

  /** A lane accepted more work. */
  void expect(int work) {
    sendQueue.expect(work);
  }

  /**
   * Posts waiting work, as far as space allows.
   *
   * @return number of requests
   */
  int send() {
    int sent = 0;
    boolean more = sendQueue.waits() || announced != handledHere() - receives.waiting();
    while (more && broken == null) {
      RequestBatch batch = sendQueue.begin();
      announce();
      sendQueue.fill();
      more = batch.full();
      sent += batch.size();
      if (batch.size() > 0) {
        post(batch);
      }
    }
    return sent;
  }

  private void post(RequestBatch batch) {
    int error = device.post(batch);
    if (error != 0) {
      lose(Cause.LOST, "ibv_post_send returned error " + error);
    }
  }

  /** Announces handled and reposted receives that the peer does not know of. */
  private void announce() {
    long received = receives.used() - receives.waiting();
    if (announced != received && sendQueue.word(received)) {
      announced = received;
    }
  }

  /** Whether its completions come from this queue. */
  boolean completesIn(CompletionQueue queue) {
    return completions == queue;
  }

  /** The device has completed a request and all before it. */
  void sent(long id) {
    sendQueue.done(id);
  }

  /** The device returns a request or a receive that is not done, and all after it. */
  void returned(long id, Cause cause, String why) {
    if (RequestId.isReceive(id)) {
      unused++;
    } else {
      sendQueue.refused(id);
    }
    lose(cause, why);
  }

  /** A receive was used up. */
  void received(int opcode, int immediate) {
    long at = VerbsControlLayout.place(receives.use());
    if (opcode == VerbsConstants.IBV_WC_RECV_RDMA_WITH_IMM) {
      count(immediate, 1);
      return;
    }
    int kind = VerbsControlLayout.kind(block, at);
    int number = VerbsControlLayout.number(block, at);
    switch (kind) {
      case VerbsControlLayout.ADD -> count(number, VerbsControlLayout.value(block, at));
      case VerbsControlLayout.GOODBYE -> lose(Cause.CLOSED, "the peer has closed its wire");
      case VerbsControlLayout.MOVED, VerbsControlLayout.GONE ->
          received(kind, number, VerbsControlLayout.value(block, at));
      default -> lose(Cause.PROTOCOL, "the peer sent a message of unknown kind " + kind);
    }
  }

  private void received(int kind, int number, long value) {
    if (failover == null || !failover.received(this, kind, number, value)) {
      lose(Cause.PROTOCOL, "the peer named queue pair " + number + ", which does not exist");
    }
  }

  private void count(int counter, long value) {
    if (counter < 0 || counter >= counters.count()) {
      lose(Cause.PROTOCOL, "the peer named counter " + counter + ", which does not exist");
    } else {
      counters.add(counter, value);
    }
  }

  /** Reposts used receives if at least {@code least} wait. */
  void renew(int least) {
    if (broken == null && receives.waiting() >= least && receives.waiting() > 0) {
      int error = device.renew(receives);
      if (error != 0) {
        lose(Cause.LOST, "ibv_post_recv returned error " + error);
      }
    }
  }

  /** Number of handled receives that is announced immediately. */
  int worthTelling() {
    return depth / 4;
  }

  /**
   * Reads the number of receives that the peer has handled.
   *
   * @return number of requests that have taken effect
   */
  int progress() {
    if (sendQueue.settled()) {
      return 0;
    }
    long now = VerbsControlLayout.handled(block);
    if (!sendQueue.possible(now)) {
      lose(Cause.PROTOCOL, "the peer reports an impossible number of handled messages, " + now);
      return 0;
    }
    return sendQueue.handled(now);
  }

  /** Probes the peer: writes the announced word again, which needs an acknowledgement. */
  void probe() {
    if (broken == null && sendQueue.idle()) {
      announced--;
      send();
    }
  }

  /**
   * Announces handled receives and the end of the connection.
   *
   * @return whether the device of the peer has received it
   */
  boolean sendGoodbye() {
    renew(1);
    if (broken == null && !goodbyeSent) {
      if (!sendQueue.hasSpaceForGoodbye()) {
        return false;
      }
      RequestBatch batch = sendQueue.begin();
      announce();
      sendQueue.message(VerbsControlLayout.GOODBYE, 0, 0);
      goodbyeSent = true;
      post(batch);
    }
    return broken != null || sendQueue.idle();
  }

  /** Sends a message about another queue pair; false while there is no space. */
  boolean announce(int kind, int number, long value) {
    if (broken != null || !sendQueue.hasSpaceForMessage()) {
      return false;
    }
    RequestBatch batch = sendQueue.begin();
    sendQueue.message(kind, number, value);
    post(batch);
    return broken == null;
  }

  /** Stops the queue pair: the device returns all requests. */
  void stop() {
    device.stop();
  }

  /** Whether the device has returned all requests of a stopped queue pair: its counts are final. */
  boolean drained() {
    return sendQueue.empty() && unused == receives.posted();
  }

  /** Number of handled receives. */
  long handledHere() {
    return receives.used();
  }

  /**
   * Settles a drained queue pair with the final count of the peer; hands its lanes to the caller.
   *
   * @return null if the count is impossible
   */
  VerbsLane @Nullable [] settle(long handledThere) {
    if (!sendQueue.possible(handledThere)) {
      return null;
    }
    sendQueue.settle(handledThere);
    closeLost();
    VerbsLane[] orphaned = sendQueue.lanes();
    sendQueue.dismiss();
    return orphaned;
  }

  /** Adds a lane; false if this could deliver work twice. */
  boolean adopt(VerbsLane lane) {
    return sendQueue.adopt(this, lane);
  }

  /**
   * Marks the queue pair as lost; its progress context ends it after processing remaining
   * completions.
   */
  void lose(Cause cause, String why) {
    if (broken == null) {
      broken = cause;
      reason = why;
    }
  }

  /** Whether it is lost, and its lanes do not report it yet. */
  boolean ending() {
    return broken != null && device.open();
  }

  /**
   * Ends a lost queue pair: the device no longer accesses memory through it, and its lanes fail.
   *
   * @return number of failed lanes
   */
  int end(String state) {
    progress();
    closeLost();
    Cause cause = broken == null ? Cause.LOST : broken;
    String text =
        ErrorCode.VERBS_QUEUE_PAIR_LOST.message(
            "port %s: %s; %s".formatted(port.name(), reason, state));
    int failed = 0;
    for (VerbsLane lane : sendQueue.lanes()) {
      if (lane.failure() == null) {
        lane.fail(cause, text);
        failed++;
      }
    }
    sendQueue.dismiss();
    return failed;
  }

  /** A device that cannot even destroy a queue pair must not end each poll: the lanes fail. */
  private void closeLost() {
    try {
      close();
    } catch (WireException e) {
      reason += "; " + e.getMessage();
    }
  }

  @Override
  public void close() {
    device.close();
  }
}
