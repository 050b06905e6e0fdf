package org.ep4j.rdma.ucx;

import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.support.GroupLane;
import org.ep4j.wire.support.Window;
import org.jspecify.annotations.Nullable;

/**
 * A queue of work that refers to the caller's bytes. Work {@code n} lies at index {@code n - 1} of
 * a ring from when it is accepted until the peer has acknowledged it. Before it can be framed it is
 * posted: if its bytes go past the messages, they are given to UCX then. {@code delivered <= framed
 * <= posted <= accepted}.
 */
final class UcxLane extends GroupLane<UcxRegion> {
  /** Up to here bytes go with the message that counts them, which saves a flush. */
  static final int SHORT = 4096;

  private final UcxWire wire;
  private final Link link;
  private final int mask;

  /** Where the bytes come from; null for an add. */
  final @Nullable UcxRegion[] local;

  /** Where in it; by how much, for an add. */
  final long[] localOffset;

  /** Where they go; null for an add. */
  final @Nullable UcxRegion[] remote;

  final long[] remoteOffset;
  final long[] bytes;
  final int[] counter;

  /** Number of the put with which the bytes are visible; 0 if they go with messages. */
  final long[] lastPut;

  private long accepted;
  private long delivered;

  /** Work whose bytes have been given to UCX, as far as they go past the messages. */
  long posted;

  /** Bytes of the next work that have been. */
  long postedBytes;

  /** Work whose last frame has been made. */
  long framed;

  /** Bytes of the next work that have been framed. */
  long framedBytes;

  /** Number of the message with the last frame of this lane. */
  long message;

  /** Work of the peer that has taken effect here, and how much of it the peer was told of. */
  long applied;

  long acknowledged;

  UcxLane(UcxWire wire, Link link, Window window, int index) {
    super(wire, window, link.peer(), index);
    this.wire = wire;
    this.link = link;
    int capacity = capacity(wire.config());
    mask = capacity - 1;
    local = new UcxRegion[capacity];
    localOffset = new long[capacity];
    remote = new UcxRegion[capacity];
    remoteOffset = new long[capacity];
    bytes = new long[capacity];
    counter = new int[capacity];
    lastPut = new long[capacity];
  }

  @Override
  protected UcxRegion own(Region given) {
    return UcxRegion.of(given, wire);
  }

  @Override
  protected boolean connected() {
    return link.isOpen();
  }

  @Override
  protected long accept(
      @Nullable UcxRegion source,
      long from,
      @Nullable UcxRegion target,
      long to,
      long size,
      int count) {
    int slot = (int) accepted & mask;
    local[slot] = source;
    localOffset[slot] = from;
    remote[slot] = target;
    remoteOffset[slot] = to;
    bytes[slot] = size;
    counter[slot] = count;
    lastPut[slot] = 0;
    accepted++;
    if (target != null && target.direct() && size > SHORT && posted == accepted - 1) {
      link.post();
    }
    return accepted;
  }

  /** Whether there is work that has not been posted. */
  boolean waitsForPost() {
    return posted != accepted;
  }

  /** Index of the next work to post. */
  int nextPost() {
    return (int) posted & mask;
  }

  /** Whether the bytes of some work go past the messages. */
  boolean isLong(int slot) {
    UcxRegion target = remote[slot];
    return target != null && target.direct() && bytes[slot] > SHORT;
  }

  /**
   * Whether there is work that may be framed.
   *
   * @param visible number of the last put whose bytes are visible
   */
  boolean waitsForFrame(long visible) {
    return framed != posted && lastPut[next()] <= visible;
  }

  /** Index of the next work to frame. */
  int next() {
    return (int) framed & mask;
  }

  /**
   * The peer has said how much has taken effect.
   *
   * @return whether that can be
   */
  boolean acknowledge(long upTo) {
    if (upTo < delivered || upTo > framed) {
      return false;
    }
    while (delivered < upTo) {
      forget((int) delivered & mask);
      delivered++;
    }
    return true;
  }

  /** Ends the lane, once; UCX reads none of its bytes any more. */
  void fail(Cause cause, String text) {
    for (long work = delivered; work < accepted; work++) {
      forget((int) work & mask);
    }
    posted = accepted;
    framed = accepted;
    failed(cause, text, delivered, accepted);
  }

  private void forget(int slot) {
    giveBack(bytes[slot]);
    local[slot] = null;
    remote[slot] = null;
  }

  @Override
  public boolean flush() {
    requireOpen();
    return failure() != null || (link.isOpen() && link.hasLeft(this));
  }

  /** Whether every accepted piece of work is in a message. */
  boolean isFramed() {
    return framed == accepted;
  }

  @Override
  public long accepted() {
    return accepted;
  }

  @Override
  public long delivered() {
    return delivered;
  }
}
