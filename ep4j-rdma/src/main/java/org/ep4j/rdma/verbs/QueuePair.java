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
  /** Longer puts are cut: a short put of another lane waits for no more than this. */
  private static final int LONGEST = 1 << 20;

  /** Requests that lanes leave free: for the word of handled receives, and for the farewell. */
  private static final int RESERVED = 2;

  private final OpenPort port;
  private final int portIndex;
  private final int peer;
  private final int index;
  private final Counters counters;
  private final RequestBatch batch;
  private final int depth;
  private final int longest;
  private final MemorySegment block;
  private final int blockKey;
  private final ReceiveRing receives;
  private final RequestLog log;
  private final DevicePair device;
  private PairAddress remote = new PairAddress(0, 0, 0, 0);
  private VerbsLane[] lanes = {};

  /** The lane whose turn it is, and pieces of work of all lanes that are not posted. */
  private int turn;

  private int waiting;

  /** Receives that the peer has said it handled, and those that it was told of. */
  private long handled;

  private long told;

  private @Nullable Cause broken;
  private String reason = "";
  private boolean farewell;

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
    portIndex = place.portIndex();
    peer = place.peer();
    index = place.index();
    counters = place.counters();
    batch = place.batch();
    depth = settings.depth();
    longest = Math.min(LONGEST, port.mostBytes());
    block = place.block();
    blockKey = place.blockKey();
    log = new RequestLog(depth);
    receives = new ReceiveRing(index, depth + 1, block.address(), blockKey, arena);
    device = new DevicePair(port, place.completions(), depth);
    device.postReceives(receives);
  }

  /** For the other end. */
  PairAddress address() {
    return device.address(block, blockKey);
  }

  void connect(PortAddress peersPort, PairAddress peersPair, RdmaSettings settings) {
    remote = peersPair;
    device.connect(peersPort, peersPair, settings);
  }

  void carry(VerbsLane[] carried) {
    lanes = carried;
  }

  int peer() {
    return peer;
  }

  /** A lane has more work. */
  void expect(int work) {
    waiting += work;
  }

  /** Whether it carries anything still. */
  boolean works() {
    return broken == null;
  }

  /**
   * Posts what waits, as far as there is room.
   *
   * @return number of requests
   */
  int send() {
    int sent = 0;
    boolean more = waiting > 0 || told != receives.used() - receives.waiting();
    while (more && broken == null) {
      batch.clear();
      tell();
      fill();
      more = batch.full();
      sent += batch.size();
      if (batch.size() > 0) {
        post();
      }
    }
    return sent;
  }

  private void post() {
    int error = device.post(batch);
    if (error != 0) {
      lose(Cause.LOST, "ibv_post_send gave error " + error);
    }
  }

  /** Appends the word that says how many receives were handled, if the peer does not know. */
  private void tell() {
    long news = receives.used() - receives.waiting();
    if (told != news && log.underWay() < depth - 1 && log.room()) {
      batch.word(
          RequestId.send(index, log.next()),
          news,
          remote.block() + ControlLayout.HANDLED,
          remote.key());
      log.add(null, 0, false);
      told = news;
    }
  }

  /** One request of each lane in turn. */
  private void fill() {
    int idle = 0;
    while (waiting > 0 && !batch.full() && idle < lanes.length) {
      VerbsLane lane = lanes[turn];
      turn = turn + 1 == lanes.length ? 0 : turn + 1;
      idle = append(lane) ? 0 : idle + 1;
    }
  }

  private boolean append(VerbsLane lane) {
    if (!lane.waits() || log.underWay() >= depth - RESERVED || !log.room()) {
      return false;
    }
    int slot = lane.next();
    VerbsRegion from = lane.local[slot];
    VerbsRegion to = lane.remote[slot];
    int counter = lane.counter[slot];
    boolean credit = log.messages() - handled < depth;
    long id = RequestId.send(index, log.next());
    if (from == null || to == null) {
      if (credit) {
        batch.message(id, ControlLayout.ADD, counter, lane.localOffset[slot]);
        waiting--;
        log.add(lane, lane.post(), true);
      }
      return credit;
    }
    long at = lane.postedBytes;
    int bytes = (int) Math.min(lane.bytes[slot] - at, longest);
    boolean last = at + bytes == lane.bytes[slot];
    boolean counted = last && counter >= 0;
    if (counted && !credit) {
      return false;
    }
    batch.write(
        id,
        from.address() + lane.localOffset[slot] + at,
        from.localKey(portIndex),
        bytes,
        to.address(peer) + lane.remoteOffset[slot] + at,
        to.remoteKey(peer, portIndex),
        counted ? counter : -1,
        bytes <= device.inline());
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
  void sent(long id) {
    log.done(RequestId.count(id, log.done()));
  }

  /** A receive was used up. */
  void received(int opcode, int immediate) {
    int place = receives.use();
    if (opcode == VerbsConstants.IBV_WC_RECV_RDMA_WITH_IMM) {
      count(immediate, 1);
      return;
    }
    long at = ControlLayout.place(place);
    switch (ControlLayout.kind(block, at)) {
      case ControlLayout.ADD ->
          count(ControlLayout.number(block, at), ControlLayout.value(block, at));
      case ControlLayout.FAREWELL -> lose(Cause.CLOSED, "the peer has closed its wire");
      default ->
          lose(
              Cause.PROTOCOL,
              "the peer has sent a message of kind " + ControlLayout.kind(block, at));
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
    if (log.settled()) {
      return 0;
    }
    long now = ControlLayout.handled(block);
    if (now < handled || now > log.messages()) {
      lose(
          Cause.PROTOCOL,
          "the peer says that it has handled %d of %d messages".formatted(now, log.messages()));
      return 0;
    }
    handled = now;
    return log.apply(now);
  }

  /** Asks the device for a sign of life of the peer: a word that says nothing new. */
  void probe() {
    if (broken == null && log.underWay() == 0 && log.room()) {
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
      if (log.underWay() > depth - RESERVED || !log.room()) {
        return false;
      }
      batch.clear();
      tell();
      batch.message(RequestId.send(index, log.next()), ControlLayout.FAREWELL, 0, 0);
      log.add(null, 0, true);
      farewell = true;
      post();
    }
    return broken != null || log.underWay() == 0;
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
    for (VerbsLane lane : lanes) {
      if (lane.failure() == null) {
        lane.fail(cause, text);
        failed++;
      }
    }
    waiting = 0;
    return failed;
  }

  @Override
  public void close() {
    device.close();
  }
}
