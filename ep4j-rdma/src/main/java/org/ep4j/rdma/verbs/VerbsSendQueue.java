package org.ep4j.rdma.verbs;

import java.util.Arrays;

/**
 * The sending half of a queue pair: turns work of its lanes into requests, as far as the device and
 * the peer have room, and follows each until it has taken effect.
 */
final class VerbsSendQueue {
  /** Longer puts are cut: a short put of another lane waits for no more than this. */
  private static final int LONGEST = 1 << 20;

  /** Requests that lanes leave free: for the word of handled receives, and for the farewell. */
  private static final int RESERVED = 2;

  private final int index;
  private final int peer;
  private final int portIndex;
  private final int depth;
  private final int longest;
  private final int inline;
  private final RequestBatch batch;
  private final RequestLog log;
  private PairAddress remote = new PairAddress(0, 0, 0, 0);
  private VerbsLane[] lanes = {};

  /** The lane whose turn it is, and pieces of work of all lanes that are not posted. */
  private int nextLane;

  private int waiting;

  /** Receives that the peer has said it handled. */
  private long handled;

  /** The last request that the device has returned, done or not; whether one was not. */
  private long returned;

  private boolean refused;

  /** An empty one of a queue pair that takes so many bytes inside a request. */
  VerbsSendQueue(QueuePair.Slot place, int depth, int inline) {
    index = place.index();
    peer = place.peer();
    portIndex = place.portIndex();
    batch = place.batch();
    longest = Math.min(LONGEST, place.port().maxBytes());
    this.depth = depth;
    this.inline = inline;
    log = new RequestLog(depth);
  }

  void connect(PairAddress to) {
    remote = to;
  }

  void carry(VerbsLane[] carried) {
    lanes = carried;
  }

  VerbsLane[] lanes() {
    return lanes;
  }

  /** Carries one more lane; false if that is not possible without delivering something twice. */
  boolean adopt(QueuePair pair, VerbsLane lane) {
    long work = lane.move(pair);
    if (work < 0) {
      return false;
    }
    lanes = Arrays.copyOf(lanes, lanes.length + 1);
    lanes[lanes.length - 1] = lane;
    waiting += (int) work;
    return true;
  }

  /** Carries none any more. */
  void dismiss() {
    waiting = 0;
    lanes = new VerbsLane[0];
  }

  void expect(int work) {
    waiting += work;
  }

  /** Whether lanes have work that is not posted. */
  boolean waits() {
    return waiting > 0;
  }

  /** The batch to append to, which is posted before anything else uses it. */
  RequestBatch begin() {
    batch.clear();
    return batch;
  }

  /**
   * Appends the word that says how many receives were handled here; false while there is no room.
   */
  boolean word(long received) {
    if (log.inFlight() >= depth - 1 || !log.space()) {
      return false;
    }
    batch.word(
        RequestId.send(index, log.next()),
        received,
        remote.block() + VerbsControlLayout.HANDLED,
        remote.key());
    log.add(null, 0, false);
    return true;
  }

  /** Whether the device has room for the farewell and a word; the peer has always. */
  boolean hasSpaceForGoodbye() {
    return log.inFlight() <= depth - RESERVED && log.space();
  }

  /** Whether there is room for a message. */
  boolean hasSpaceForMessage() {
    return log.inFlight() < depth - RESERVED && log.space() && credit();
  }

  private boolean credit() {
    return log.messages() - handled < depth;
  }

  /** Appends a message of the wire itself. */
  void message(int kind, int number, long value) {
    batch.message(RequestId.send(index, log.next()), kind, number, value);
    log.add(null, 0, true);
  }

  /** Appends one request of each lane in turn. */
  void fill() {
    int idle = 0;
    while (waiting > 0 && !batch.full() && idle < lanes.length) {
      VerbsLane lane = lanes[nextLane];
      nextLane = nextLane + 1 == lanes.length ? 0 : nextLane + 1;
      idle = append(lane) ? 0 : idle + 1;
    }
  }

  private boolean append(VerbsLane lane) {
    if (!lane.waits() || log.inFlight() >= depth - RESERVED || !log.space()) {
      return false;
    }
    int slot = lane.next();
    VerbsRegion from = lane.local(slot);
    VerbsRegion to = lane.remote(slot);
    int counter = lane.counter(slot);
    long id = RequestId.send(index, log.next());
    if (from == null || to == null) {
      boolean credit = credit();
      if (credit) {
        batch.message(id, VerbsControlLayout.ADD, counter, lane.localOffset(slot));
        waiting--;
        log.add(lane, lane.post(), true);
      }
      return credit;
    }
    long at = lane.postedBytes;
    int bytes = (int) Math.min(lane.bytes(slot) - at, longest);
    boolean last = at + bytes == lane.bytes(slot);
    boolean counted = last && counter >= 0;
    if (counted && !credit()) {
      return false;
    }
    batch.write(
        id,
        from.address() + lane.localOffset(slot) + at,
        from.localKey(portIndex),
        bytes,
        to.address(peer) + lane.remoteOffset(slot) + at,
        to.remoteKey(peer, portIndex),
        counted ? counter : -1,
        // The processor copies what goes inside a request.
        bytes <= inline && from.memory().onHost());
    if (last) {
      waiting--;
      log.add(lane, lane.post(), counted);
    } else {
      lane.postedBytes = at + bytes;
      log.add(lane, 0, false);
    }
    return true;
  }

  /** The device has done a request, and all before it. */
  void done(long id) {
    returned = RequestId.count(id, log.done());
    log.done(returned);
  }

  /** The device returns a request that is not done, as it does with all after it. */
  void refused(long id) {
    returned = RequestId.count(id, log.done());
    if (!refused) {
      // Those before it were done, whether they were signalled or not.
      log.done(returned - 1);
      refused = true;
    }
  }

  /** Whether the device holds nothing any more. */
  boolean empty() {
    return returned == log.posted();
  }

  /** Whether the device has done everything. */
  boolean idle() {
    return log.inFlight() == 0;
  }

  /** Whether all requests have taken effect. */
  boolean settled() {
    return log.settled();
  }

  /** Whether the peer can have handled so many of its receives. */
  boolean possible(long now) {
    return now >= handled && now <= log.messages();
  }

  /**
   * The peer has handled so many of its receives.
   *
   * @return how many requests are now known to have taken effect
   */
  int handled(long now) {
    handled = now;
    return log.apply(now);
  }

  /** As {@link #handled}, and that is all that will ever be. */
  void settle(long inTheEnd) {
    log.settle(inTheEnd);
  }
}
