package org.ep4j.rdma.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.wire.Counters;
import org.ep4j.wire.LaneFailure.Cause;
import org.jspecify.annotations.Nullable;

/**
 * One end of a reliable connection, with the lanes that it carries; driven by its strand. What the
 * ends say to each other is in {@link ControlLayout}.
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
  private final Outbox outbox;
  private final ReceiveRing receives;

  /** Handled receives that the peer was told of, and receives that the device returned unused. */
  private long told;

  private int unused;

  private @Nullable Cause broken;
  private String reason = "";
  private boolean farewell;
  private @Nullable Detours detours;

  /** Where a queue pair is, what it shares, how large it is. */
  record Place(
      OpenPort port,
      int portIndex,
      CompletionQueue completions,
      int peer,
      int index,
      RequestBatch batch,
      Counters counters,
      MemorySegment block,
      int blockKey) {}

  QueuePair(Place place, RdmaSettings settings, Arena arena) {
    port = place.port();
    peer = place.peer();
    index = place.index();
    counters = place.counters();
    depth = settings.depth();
    block = place.block();
    blockKey = place.blockKey();
    receives = new ReceiveRing(index, depth + 1, block.address(), blockKey, arena);
    device = new DevicePair(port, place.completions(), depth);
    outbox = new Outbox(place, depth, device.inline());
    device.postReceives(receives);
  }

  /** For the other end. */
  PairAddress address() {
    return device.address(block, blockKey);
  }

  void connect(PortAddress peersPort, PairAddress peersPair, RdmaSettings settings) {
    outbox.connect(peersPair);
    device.connect(peersPort, peersPair, settings);
  }

  void carry(VerbsLane[] carried) {
    outbox.carry(carried);
  }

  /** Tells messages of lost queue pairs to the strand. */
  void report(Detours to) {
    detours = to;
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
    outbox.expect(work);
  }

  /**
   * Posts what waits, as far as there is room.
   *
   * @return number of requests
   */
  int send() {
    int sent = 0;
    boolean more = outbox.waits() || told != handledHere() - receives.waiting();
    while (more && broken == null) {
      RequestBatch batch = outbox.begin();
      tell();
      outbox.fill();
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
  private void tell() {
    long news = receives.used() - receives.waiting();
    if (told != news && outbox.word(news)) {
      told = news;
    }
  }

  /** The device has done a request, and all before it. */
  void sent(long id) {
    outbox.done(id);
  }

  /** The device returns a request or a receive that is not done, as it does with all after it. */
  void returned(long id, Cause cause, String why) {
    if (RequestId.isReceive(id)) {
      unused++;
    } else {
      outbox.refused(id);
    }
    lose(cause, why);
  }

  /** A receive was used up. */
  void received(int opcode, int immediate) {
    long at = ControlLayout.place(receives.use());
    if (opcode == VerbsConstants.IBV_WC_RECV_RDMA_WITH_IMM) {
      count(immediate, 1);
      return;
    }
    int kind = ControlLayout.kind(block, at);
    int number = ControlLayout.number(block, at);
    switch (kind) {
      case ControlLayout.ADD -> count(number, ControlLayout.value(block, at));
      case ControlLayout.FAREWELL -> lose(Cause.CLOSED, "the peer has closed its wire");
      case ControlLayout.MOVED, ControlLayout.GONE ->
          heard(kind, number, ControlLayout.value(block, at));
      default -> lose(Cause.PROTOCOL, "the peer has sent a message of kind " + kind);
    }
  }

  private void heard(int kind, int number, long value) {
    if (detours == null || !detours.heard(this, kind, number, value)) {
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
    if (outbox.settled()) {
      return 0;
    }
    long now = ControlLayout.handled(block);
    if (!outbox.possible(now)) {
      lose(Cause.PROTOCOL, "the peer says that it has handled " + now + " messages");
      return 0;
    }
    return outbox.handled(now);
  }

  /** Asks the device for a sign of life of the peer: a word that says nothing new. */
  void probe() {
    if (broken == null && outbox.quiet()) {
      told--;
      send();
    }
  }

  /**
   * Says what was handled, and that nothing follows.
   *
   * @return whether the peer's device has it
   */
  boolean sayGoodbye() {
    renew(1);
    if (broken == null && !farewell) {
      if (!outbox.roomForFarewell()) {
        return false;
      }
      RequestBatch batch = outbox.begin();
      tell();
      outbox.message(ControlLayout.FAREWELL, 0, 0);
      farewell = true;
      post(batch);
    }
    return broken != null || outbox.quiet();
  }

  /** Sends a message about another queue pair; false while there is no room. */
  boolean announce(int kind, int number, long value) {
    if (broken != null || !outbox.roomForMessage()) {
      return false;
    }
    RequestBatch batch = outbox.begin();
    outbox.message(kind, number, value);
    post(batch);
    return broken == null;
  }

  /** Stops it: the device returns what it holds. */
  void stop() {
    device.stop();
  }

  /** Whether the device of a stopped one holds nothing any more: its counts are final. */
  boolean drained() {
    return outbox.empty() && unused == receives.posted();
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
    if (!outbox.possible(handledThere)) {
      return null;
    }
    outbox.settle(handledThere);
    close();
    VerbsLane[] homeless = outbox.lanes();
    outbox.dismiss();
    return homeless;
  }

  /** Carries one more lane; false if that is not possible without delivering something twice. */
  boolean adopt(VerbsLane lane) {
    return outbox.adopt(this, lane);
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
  int end(String fate) {
    progress();
    close();
    Cause cause = broken == null ? Cause.LOST : broken;
    String text = "port %s: %s; %s".formatted(port.name(), reason, fate);
    int failed = 0;
    for (VerbsLane lane : outbox.lanes()) {
      if (lane.failure() == null) {
        lane.fail(cause, text);
        failed++;
      }
    }
    outbox.dismiss();
    return failed;
  }

  @Override
  public void close() {
    device.close();
  }
}
