package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import org.ep4j.error.ErrorCode;
import org.ep4j.rdma.ucx.bindings.UcpSetUp;
import org.ep4j.rdma.ucx.bindings.UcpStatus;
import org.ep4j.rdma.ucx.bindings.UcpTraffic;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.support.InFlightLimit;
import org.jspecify.annotations.Nullable;

/**
 * An endpoint to a peer and the lanes that share it, see {@link MessageLayout}. When it fails, its
 * lanes fail permanently. Accessed only by the thread of its progress context.
 *
 * <p>A connection ends in steps, a few per poll: UCX releases the memory of the callers before the
 * lanes report the failure, because the bytes may change from then on.
 */
final class UcxConnection {
  /** Maximum number of messages per call, so that input is also processed. */
  private static final int MAX_MESSAGES = 64;

  private static final int MAX_UNACKNOWLEDGED = 32;
  private static final long MAX_UNACKNOWLEDGED_BYTES = 1 << 20;

  /** Number of idle polls after which work of the peer is acknowledged. */
  private static final int IDLE_POLLS = 8;

  /** Timeout for an orderly end. */
  private static final long ENDING_NANOS = 1_000_000_000;

  private enum State {
    /** Carries work. */
    OPEN,
    /** Waits until its puts are visible. */
    DRAINING,
    /** Has no pending put, and has sent or is sending GOODBYE. */
    LEAVING,
    /** The endpoint is closed; requests are still pending. */
    CANCELLING,
    /** All resources are released. */
    ENDED
  }

  private final UcxWire wire;
  private final int peer;
  private final int number;
  private final long endpoint;
  private final RequestParams params;
  private final UcxLane[] lanes;
  private final UcxSendQueue sendQueue;
  private final PendingPuts puts;
  private final MessageBuilder maker;
  private final UcxReceiver arrivals;
  private State state = State.OPEN;
  private int idlePolls;
  private int nextToPost;

  private long helloDue = MessageLayout.FIRST;
  private boolean answered;

  private @Nullable Cause cause;
  private String text = "";
  private boolean published;
  private boolean broken;
  private boolean goodbyeReceived;
  // Number of the message with GOODBYE; 0 before.
  private long goodbye;
  private long endingSince;

  /** Notices of peers that have been looked at. */
  private int looked;

  /**
   * A connection over a new endpoint.
   *
   * @param ticket random number of the peer
   */
  UcxConnection(
      UcxWire wire,
      int peer,
      int connection,
      long endpoint,
      long ticket,
      RequestParams params,
      InFlightLimit window,
      Arena arena) {
    this.wire = wire;
    this.peer = peer;
    this.endpoint = endpoint;
    this.params = params;
    WireConfig config = wire.config();
    number = peer * config.connections() + connection;
    lanes =
        new UcxLane[Math.max(0, Math.ceilDiv(config.lanes() - connection, config.connections()))];
    for (int i = 0; i < lanes.length; i++) {
      lanes[i] = new UcxLane(wire, this, window, connection + i * config.connections());
    }
    sendQueue = new UcxSendQueue(arena, params);
    puts = new PendingPuts(params);
    maker = new MessageBuilder(sendQueue, lanes, ticket, wire.rank(), connection);
    arrivals = new UcxReceiver(wire, this);
  }

  int peer() {
    return peer;
  }

  int number() {
    return number;
  }

  long endpoint() {
    return endpoint;
  }

  UcxLane[] lanes() {
    return lanes;
  }

  UcxReceiver arrivals() {
    return arrivals;
  }

  /** The lane with this index; null if this connection does not carry it. */
  @Nullable UcxLane lane(int index) {
    int connections = wire.config().connections();
    int place = index / connections;
    return place < lanes.length && lanes[place].index() == index ? lanes[place] : null;
  }

  /** Whether the connection accepts work. */
  boolean isOpen() {
    return state == State.OPEN && cause == null;
  }

  /** Why the connection ends; empty while it works. */
  String failureText() {
    return text;
  }

  boolean hasEnded() {
    return state == State.ENDED;
  }

  /** Whether both sides have received an answer to HELLO. */
  boolean greeted() {
    return answered && helloDue == 0 && sendQueue.taken() == sendQueue.sent();
  }

  void receivedHello(long value) {
    if (value == MessageLayout.FIRST) {
      helloDue = MessageLayout.ANSWER;
    } else {
      answered = true;
    }
  }

  void receivedGoodbye(boolean aborts) {
    goodbyeReceived = true;
    condemn(
        aborts ? Cause.PROTOCOL : Cause.CLOSED,
        aborts ? "the peer received an invalid message" : "the peer has closed its wire");
  }

  /** The endpoint or a call failed: no more messages in either direction. */
  void lost(String what, int status) {
    broken = true;
    String why = what + ": " + UcpStatus.text(status) + "; " + wire.status(peer);
    condemn(Cause.LOST, ErrorCode.UCX_CONNECTION_LOST.message(why));
  }

  /** The peer has departed. */
  void departed(String report) {
    broken = true;
    condemn(Cause.DEPARTED, report);
  }

  /** Ends the connection if the peer has reported that its end has failed. */
  void heedReports() {
    int now = wire.reports();
    if (now == looked) {
      return;
    }
    looked = now;
    for (UcxLane lane : lanes) {
      String report = wire.reported(peer, lane.index());
      if (report != null) {
        broken = true;
        condemn(Cause.LOST, report);
      }
    }
  }

  /** Sets the cause of the end, unless set. The next poll begins to end the connection. */
  void condemn(Cause how, String why) {
    if (cause == null && state == State.OPEN) {
      cause = how;
      text = why;
    }
  }

  /** Posts long puts round robin over the lanes, up to the limit; returns their number. */
  int post() {
    int done = 0;
    int idle = 0;
    while (idle < lanes.length && puts.hasSpace() && isOpen()) {
      UcxLane lane = lanes[nextToPost];
      nextToPost = nextToPost + 1 == lanes.length ? 0 : nextToPost + 1;
      boolean any = lane.waitsForPost() && post(lane);
      idle = any ? 0 : idle + 1;
      done += any ? 1 : 0;
    }
    if (puts.wantsFlush() && isOpen()) {
      judge(puts.flush(endpoint), "ucp_ep_flush_nbx");
    }
    return done;
  }

  /** Posts the next put of a lane, or a part of it; false if none waits. */
  private boolean post(UcxLane lane) {
    while (lane.waitsForPost()) {
      int slot = lane.nextPost();
      if (lane.isLong(slot)) {
        return post(lane, slot);
      }
      lane.posted++;
    }
    return false;
  }

  private boolean post(UcxLane lane, int slot) {
    UcxRegion source = lane.local(slot);
    UcxRegion target = lane.remote(slot);
    if (source == null || target == null) {
      return false;
    }
    try {
      long done = lane.postedBytes;
      long size = Math.min(lane.bytes(slot) - done, PendingPuts.LONGEST);
      int failure =
          puts.post(
              endpoint,
              source.address() + lane.localOffset(slot) + done,
              size,
              target.address(peer) + lane.remoteOffset(slot) + done,
              target.key(this),
              source.handle());
      if (failure < 0) {
        judge(failure, "ucp_put_nbx");
        return false;
      }
      lane.postedBytes = done + size;
      if (lane.postedBytes == lane.bytes(slot)) {
        lane.lastPut[slot] = puts.posted();
        lane.postedBytes = 0;
        lane.posted++;
      }
      return true;
    } catch (RuntimeException e) {
      condemn(Cause.PROTOCOL, String.valueOf(e.getMessage()));
      return false;
    }
  }

  /** Sends due messages; returns the amount of progress. */
  int send() {
    if (!isOpen()) {
      return state == State.ENDED ? 0 : end();
    }
    idlePolls++;
    long visible = puts.visible();
    judge(sendQueue.reap(), "ucp_am_send_nbx");
    judge(puts.reap(), "ucp_put_nbx");
    int done = post() + (int) (puts.visible() - visible);
    boolean acknowledge = acknowledgementDue();
    for (int i = 0; i < MAX_MESSAGES && sendQueue.hasSpace() && isOpen(); i++) {
      if (!sendMessage(acknowledge)) {
        break;
      }
      acknowledge = false;
      done++;
    }
    return done;
  }

  private boolean sendMessage(boolean acknowledge) {
    int bytes;
    try {
      bytes = maker.make(puts.visible(), acknowledge, helloDue);
    } catch (IllegalStateException e) {
      condemn(Cause.PROTOCOL, "a region was closed while its work was pending: " + e.getMessage());
      return false;
    }
    if (bytes == 0) {
      return false;
    }
    helloDue = 0;
    if (maker.acknowledgedAll()) {
      arrivals.acknowledged();
    }
    idlePolls = 0;
    judge(sendQueue.send(endpoint, bytes), "ucp_am_send_nbx");
    return true;
  }

  private boolean acknowledgementDue() {
    int count = arrivals.unacknowledged();
    return count >= MAX_UNACKNOWLEDGED
        || arrivals.unacknowledgedBytes() >= MAX_UNACKNOWLEDGED_BYTES
        || (count > 0 && idlePolls >= IDLE_POLLS);
  }

  private void judge(int status, String call) {
    if (status < 0) {
      lost(call, status);
    }
  }

  /**
   * Whether the work of a lane has left: its bytes may change, and it arrives without further calls
   * of this rank. UCX accepts a message only when the transport has all earlier ones, so the next
   * message, possibly empty, is the proof. Some flushes would wait for the peer.
   */
  boolean hasLeft(UcxLane lane) {
    if (!lane.isFramed() || sendQueue.taken() < lane.message) {
      int _ = send();
    }
    if (lane.isFramed() && lane.message != 0) {
      push(lane.message);
    }
    return lane.isFramed() && (lane.message == 0 || sendQueue.taken() > lane.message);
  }

  /** Sends an empty message if {@code number} is the last. */
  private void push(long number) {
    if (sendQueue.sent() == number && sendQueue.hasSpace() && !broken) {
      judge(sendQueue.send(endpoint, maker.makeEmpty()), "ucp_am_send_nbx");
    }
  }

  /** Starts to end the connection because this rank closes its wire: its lanes do not fail. */
  void leave() {
    published = true;
    condemn(Cause.CLOSED, "this rank closes its wire");
  }

  /** Takes the next steps of the end; returns the amount of progress. */
  private int end() {
    State before = state;
    if (state == State.OPEN) {
      state = State.DRAINING;
      endingSince = System.nanoTime();
    }
    if (broken && state != State.CANCELLING) {
      close();
    }
    switch (state) {
      case DRAINING -> drain();
      case LEAVING -> sendGoodbye();
      case CANCELLING -> reclaim();
      default -> {}
    }
    if (state != State.ENDED && System.nanoTime() - endingSince > ENDING_NANOS) {
      broken = true;
    }
    return state == before ? 0 : 1;
  }

  private void drain() {
    judge(sendQueue.reap(), "ucp_am_send_nbx");
    judge(puts.reap(), "ucp_put_nbx");
    judge(puts.flush(endpoint), "ucp_ep_flush_nbx");
    if (puts.isIdle() && !broken) {
      publish();
      state = State.LEAVING;
    }
  }

  private void sendGoodbye() {
    judge(sendQueue.reap(), "ucp_am_send_nbx");
    judge(puts.reap(), "ucp_put_nbx");
    if (goodbye == 0 && sendQueue.hasSpace()) {
      int bytes = maker.makeGoodbye(cause == Cause.PROTOCOL);
      goodbye = maker.acknowledgedAll() ? sendQueue.sent() + 1 : 0;
      judge(sendQueue.send(endpoint, bytes), "ucp_am_send_nbx");
    }
    if (goodbye != 0) {
      push(goodbye);
    }
    if (goodbye != 0 && goodbyeReceived && sendQueue.taken() > goodbye && !broken) {
      close();
    }
  }

  private void close() {
    state = State.CANCELLING;
    long request = UcpSetUp.closeEndpoint(endpoint, params.force);
    if (request != 0 && !UcpStatus.isError(request)) {
      UcpTraffic.free(request);
    }
  }

  private void reclaim() {
    int _ = sendQueue.reap();
    puts.reapAbandoned();
    if (puts.isIdle() && sendQueue.taken() == sendQueue.sent()) {
      publish();
      state = State.ENDED;
    }
  }

  private void publish() {
    Cause how = cause;
    if (!published && how != null) {
      published = true;
      for (UcxLane lane : lanes) {
        lane.fail(how, text);
      }
      wire.failed(lanes.length);
    }
  }
}
