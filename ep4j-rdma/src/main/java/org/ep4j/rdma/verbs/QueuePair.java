package org.ep4j.rdma.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.ErrorCode;
import org.ep4j.wire.Counters;
import org.ep4j.wire.LaneFailure.Cause;
import org.jspecify.annotations.Nullable;

/**
 * One end of a reliable connection, with the lanes that it carries; driven by its strand. What the
 * ends say to each other is in {@link VerbsControlLayout}.
 */
final class QueuePair implements AutoCloseable {
  private final OpenPort port;
  private final int peer;
  private final int index;
  private final Counters counters;
  private final int depth;
  private final MemorySegment block;
  private final int blockKey;
  private final DevicePair device;
  private final VerbsSendQueue sendQueue;
  private final ReceiveRing receives;

  /** Handled receives that the peer was told of, and receives that the device returned unused. */
  private long announced;

  private int unused;

  private @Nullable Cause broken;
  private String reason = "";
  private boolean goodbyeSent;
  private @Nullable QueuePairFailover failover;

  /** Where a queue pair is, what it shares, how large it is. */
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
    receives = new ReceiveRing(index, depth + 1, block.address(), blockKey, arena);
    device = new DevicePair(port, place.completions(), depth);
    sendQueue = new VerbsSendQueue(place, depth, device.inline());
    device.postReceives(receives);
  }

  /** For the other end. */
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

  /** Tells messages of lost queue pairs to the strand. */
  void report(QueuePairFailover to) {
    failover = to;
  }

  int peer() {
    return peer;
  }

  int index() {
    return index;
  }

  String port() {
    return port.name();
  }

  /** Whether it carries anything still. */
  boolean works() {
    return broken == null;
  }

  /** Why it is lost; null while it works. */
  @Nullable Cause broken() {
    return broken;
  }

  String reason() {
    return reason;
  }

  /** A lane has more work. */
  void expect(int work) {
    sendQueue.expect(work);
  }

  /**
   * Posts what waits, as far as there is room.
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
      lose(Cause.LOST, "ibv_post_send gave error " + error);
    }
  }

  /** Says how many receives were handled and are posted anew, if the peer does not know. */
  private void announce() {
    long received = receives.used() - receives.waiting();
    if (announced != received && sendQueue.word(received)) {
      announced = received;
    }
  }

  /** The device has done a request, and all before it. */
  void sent(long id) {
    sendQueue.done(id);
  }

  /** The device returns a request or a receive that is not done, as it does with all after it. */
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
      default -> lose(Cause.PROTOCOL, "the peer has sent a message of kind " + kind);
    }
  }

  private void received(int kind, int number, long value) {
    if (failover == null || !failover.received(this, kind, number, value)) {
      lose(Cause.PROTOCOL, "the peer has named queue pair " + number + ", which does not exist");
    }
  }

  private void count(int counter, long value) {
    if (counter < 0 || counter >= counters.count()) {
      lose(Cause.PROTOCOL, "the peer has named counter " + counter + ", which does not exist");
    } else {
      counters.add(counter, value);
    }
  }

  /** Posts used receives anew, once there are at least so many. */
  void renew(int least) {
    if (broken == null && receives.waiting() >= least && receives.waiting() > 0) {
      int error = device.renew(receives);
      if (error != 0) {
        lose(Cause.LOST, "ibv_post_recv gave error " + error);
      }
    }
  }

  /** So many used receives are worth telling the peer at once. */
  int worthTelling() {
    return depth / 4;
  }

  /**
   * Looks what the peer has handled.
   *
   * @return how many requests have taken effect
   */
  int progress() {
    if (sendQueue.settled()) {
      return 0;
    }
    long now = VerbsControlLayout.handled(block);
    if (!sendQueue.possible(now)) {
      lose(Cause.PROTOCOL, "the peer says that it has handled " + now + " messages");
      return 0;
    }
    return sendQueue.handled(now);
  }

  /** Asks the device for a sign of life of the peer: a word that says nothing new. */
  void probe() {
    if (broken == null && sendQueue.idle()) {
      announced--;
      send();
    }
  }

  /**
   * Says what was handled, and that nothing follows.
   *
   * @return whether the peer's device has it
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

  /** Sends a message about another queue pair; false while there is no room. */
  boolean announce(int kind, int number, long value) {
    if (broken != null || !sendQueue.hasSpaceForMessage()) {
      return false;
    }
    RequestBatch batch = sendQueue.begin();
    sendQueue.message(kind, number, value);
    post(batch);
    return broken == null;
  }

  /** Stops it: the device returns what it holds. */
  void stop() {
    device.stop();
  }

  /** Whether the device of a stopped one holds nothing any more: its counts are final. */
  boolean drained() {
    return sendQueue.empty() && unused == receives.posted();
  }

  /** Receives that were handled. */
  long handledHere() {
    return receives.used();
  }

  /**
   * Settles a drained one with what the peer has handled in the end; its lanes are the caller's.
   *
   * @return null if that cannot be
   */
  VerbsLane @Nullable [] settle(long handledThere) {
    if (!sendQueue.possible(handledThere)) {
      return null;
    }
    sendQueue.settle(handledThere);
    close();
    VerbsLane[] orphaned = sendQueue.lanes();
    sendQueue.dismiss();
    return orphaned;
  }

  /** Carries one more lane; false if that is not possible without delivering something twice. */
  boolean adopt(VerbsLane lane) {
    return sendQueue.adopt(this, lane);
  }

  /** Takes note that it is lost; its strand ends it after looking what else had come. */
  void lose(Cause cause, String why) {
    if (broken == null) {
      broken = cause;
      reason = why;
    }
  }

  /** Whether it is lost, and still has lanes that do not know. */
  boolean ending() {
    return broken != null && device.open();
  }

  /**
   * Ends a lost one: nobody reads or writes memory through it any more, and its lanes fail.
   *
   * @return how many lanes have failed
   */
  int end(String state) {
    progress();
    close();
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

  @Override
  public void close() {
    device.close();
  }
}
