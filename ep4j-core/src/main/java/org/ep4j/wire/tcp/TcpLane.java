package org.ep4j.wire.tcp;

import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.support.Checks;
import org.ep4j.wire.support.Window;
import org.jspecify.annotations.Nullable;

/**
 * A queue of work that refers to the caller's bytes. Work {@code n} lies at index {@code n - 1} of
 * a ring, from when it is accepted, over when its bytes are framed, until the peer has acknowledged
 * it: {@code delivered <= framed <= accepted}.
 */
final class TcpLane implements Lane {
  private final TcpWire wire;
  private final Connection connection;
  private final Window window;
  private final int index;
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

  private volatile @Nullable LaneFailure failure;

  TcpLane(TcpWire wire, Connection connection, Window window, int index) {
    this.wire = wire;
    this.connection = connection;
    this.window = window;
    this.index = index;
    int most = wire.config().operationsInFlight();
    int capacity = most == 1 ? 1 : Integer.highestOneBit(most - 1) << 1;
    mask = capacity - 1;
    local = new TcpRegion[capacity];
    localOffset = new long[capacity];
    region = new int[capacity];
    remoteOffset = new long[capacity];
    bytes = new long[capacity];
    counter = new int[capacity];
  }

  @Override
  public int peer() {
    return connection.peer();
  }

  @Override
  public int index() {
    return index;
  }

  @Override
  public long put(Region from, long fromOffset, Region to, long toOffset, long size, int count) {
    wire.requireOpen();
    TcpRegion source = TcpRegion.of(from, wire);
    TcpRegion target = TcpRegion.of(to, wire);
    Checks.put(
        fromOffset, source.bytes(), toOffset, target.bytes(peer()), size, count, wire.config());
    if (failure != null) {
      return FAILED;
    }
    if (!window.take(size)) {
      return BACK_PRESSURED;
    }
    return accept(source, fromOffset, target.id(), toOffset, size, count);
  }

  @Override
  public long add(int count, long value) {
    wire.requireOpen();
    Checks.add(count, wire.config());
    if (failure != null) {
      return FAILED;
    }
    if (!window.take(0)) {
      return BACK_PRESSURED;
    }
    return accept(null, value, TcpRegion.LOCAL, 0, 0, count);
  }

  private long accept(
      @Nullable TcpRegion source, long from, int target, long to, long size, int count) {
    int slot = (int) accepted & mask;
    local[slot] = source;
    localOffset[slot] = from;
    region[slot] = target;
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
      window.giveBack(bytes[slot]);
      local[slot] = null;
      delivered++;
    }
    return true;
  }

  /** Ends the lane, once. */
  void fail(Cause cause, String text) {
    failure = new LaneFailure(peer(), index, cause, text, delivered, accepted);
    for (long work = delivered; work < accepted; work++) {
      int slot = (int) work & mask;
      window.giveBack(bytes[slot]);
      local[slot] = null;
    }
    framed = accepted;
  }

  @Override
  public boolean flush() {
    wire.requireOpen();
    if (failure == null && (waits() || frameEnd > connection.written())) {
      connection.send();
    }
    return failure != null || (!waits() && frameEnd <= connection.written());
  }

  @Override
  public long accepted() {
    return accepted;
  }

  @Override
  public long delivered() {
    return delivered;
  }

  @Override
  public @Nullable LaneFailure failure() {
    return failure;
  }
}
