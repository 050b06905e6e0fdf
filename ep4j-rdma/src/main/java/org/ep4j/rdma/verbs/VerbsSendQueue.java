package org.ep4j.rdma.verbs;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.rdma.verbs.bindings.VerbsControlLayout;

/**
 * The sending half of a queue pair: converts work of its lanes into requests, as far as the device
 * and the peer have space, and tracks each request until it has taken effect.
 */
final class VerbsSendQueue {
  /** Longer puts are split, so that a short put of another lane waits for at most this size. */
  private static final int LONGEST = 1 << 20;

  /** Requests reserved for the word of handled receives and for the goodbye. */
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

  /** Bytes of puts handed to the device. Writer: the progress context. Readers: any thread. */
  private final AtomicLong putBytes = new AtomicLong();

  /** Index of the next lane, and number of unposted work items of all lanes. */
  private int nextLane;

  private int waiting;

  /** Receives that the peer reported as handled. */
  private long handled;

  /** The last request that the device returned, done or not; and whether one was not done. */
  private long returned;

  private boolean refused;

  /** An empty queue of a queue pair with a maximum of {@code inline} inline bytes. */
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

  /** Adds a lane; false if this could deliver work twice. */
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

  /** Removes all lanes. */
  void dismiss() {
    waiting = 0;
    lanes = new VerbsLane[0];
  }

  void expect(int work) {
    waiting += work;
  }

  /** Bytes of puts handed to the device. Any thread. */
  long putBytes() {
    return putBytes.getAcquire();
  }

  /** Whether lanes have unposted work. */
  boolean waits() {
    return waiting > 0;
  }

  /** The batch to append to; it is posted before its next use. */
  RequestBatch begin() {
    batch.clear();
    return batch;
  }

  /** Appends the word with the number of handled receives; false while there is no space. */
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

  /** Whether the device has space for the goodbye and a word; the peer always has. */
  boolean hasSpaceForGoodbye() {
    return log.inFlight() <= depth - RESERVED && log.space();
  }

  /** Whether there is space for a message. */
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

  /** Appends requests round robin over the lanes. */
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
        // The CPU copies inline bytes.
        bytes <= inline && from.memory().onHost());
    putBytes.setRelease(putBytes.getPlain() + bytes);
    if (last) {
      waiting--;
      log.add(lane, lane.post(), counted);
    } else {
      lane.postedBytes = at + bytes;
      log.add(lane, 0, false);
    }
    return true;
  }

  /** The device has completed a request and all before it. */
  void done(long id) {
    returned = RequestId.count(id, log.done());
    log.done(returned);
  }

  /** The device returns a request that is not done, and all after it. */
  void refused(long id) {
    returned = RequestId.count(id, log.done());
    if (!refused) {
      // Requests before it are done, signalled or not.
      log.done(returned - 1);
      refused = true;
    }
  }

  /** Whether the device has returned all requests. */
  boolean empty() {
    return returned == log.posted();
  }

  /** Whether the device has completed all requests. */
  boolean idle() {
    return log.inFlight() == 0;
  }

  /** Whether all requests have taken effect. */
  boolean settled() {
    return log.settled();
  }

  /** Whether {@code now} is a possible number of handled receives. */
  boolean possible(long now) {
    return now >= handled && now <= log.messages();
  }

  /**
   * The peer has handled {@code now} receives.
   *
   * @return number of requests newly known to have taken effect
   */
  int handled(long now) {
    handled = now;
    return log.apply(now);
  }

  /** Like {@link #handled}, with the final count. */
  void settle(long inTheEnd) {
    log.settle(inTheEnd);
  }
}
