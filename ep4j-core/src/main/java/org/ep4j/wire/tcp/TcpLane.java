package org.ep4j.wire.tcp;

import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.support.GroupLane;
import org.ep4j.wire.support.Window;
import org.jspecify.annotations.Nullable;

/**
 * A queue of work that refers to the caller's bytes. Work {@code n} lies at index {@code n - 1} of
 * a ring, from when it is accepted, over when its bytes are framed, until the peer has acknowledged
 * it: {@code delivered <= framed <= accepted}.
 */
final class TcpLane extends GroupLane<TcpRegion> {
  private final TcpWire wire;
  private final Connection connection;
  private final int mask;

  /** Where the bytes come from; null for an add. */
  final @Nullable TcpRegion[] local;

  /** Where in it; by how much, for an add. */
  final long[] localOffset;

  final int[] region;
  final long[] remoteOffset;
  final long[] bytes;
  final int[] counter;

  private long accepted;
  private long delivered;

  /** Work whose last frame has been made. */
  long framed;

  /** Bytes of the next work that have been framed. */
  long framedBytes;

  /** Count of the connection's bytes with which the last frame of this lane ends. */
  long frameEnd;

  /** Work of the peer that has taken effect here, and how much of it the peer was told of. */
  long applied;

  long acknowledged;

  TcpLane(TcpWire wire, Connection connection, Window window, int index) {
    super(wire, window, connection.peer(), index);
    this.wire = wire;
    this.connection = connection;
    int capacity = capacity(wire.config());
    mask = capacity - 1;
    local = new TcpRegion[capacity];
    localOffset = new long[capacity];
    region = new int[capacity];
    remoteOffset = new long[capacity];
    bytes = new long[capacity];
    counter = new int[capacity];
  }

  @Override
  protected TcpRegion own(Region given) {
    return TcpRegion.of(given, wire);
  }

  @Override
  protected long accept(
      @Nullable TcpRegion source,
      long from,
      @Nullable TcpRegion target,
      long to,
      long size,
      int count) {
    int slot = (int) accepted & mask;
    local[slot] = source;
    localOffset[slot] = from;
    region[slot] = target == null ? TcpRegion.LOCAL : target.id();
    remoteOffset[slot] = to;
    bytes[slot] = size;
    counter[slot] = count;
    return ++accepted;
  }

  /** Whether there is work without frames. */
  boolean waits() {
    return framed != accepted;
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
      int slot = (int) delivered & mask;
      giveBack(bytes[slot]);
      local[slot] = null;
      delivered++;
    }
    return true;
  }

  /** Ends the lane, once. */
  void fail(Cause cause, String text) {
    failed(cause, text, delivered, accepted);
    for (long work = delivered; work < accepted; work++) {
      int slot = (int) work & mask;
      giveBack(bytes[slot]);
      local[slot] = null;
    }
    framed = accepted;
  }

  @Override
  public boolean flush() {
    requireOpen();
    if (failure() == null && (waits() || frameEnd > connection.written())) {
      connection.send();
    }
    return failure() != null || (!waits() && frameEnd <= connection.written());
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
