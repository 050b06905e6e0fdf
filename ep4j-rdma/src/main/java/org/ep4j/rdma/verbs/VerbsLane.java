package org.ep4j.rdma.verbs;

import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.support.GroupLane;
import org.ep4j.wire.support.Window;
import org.jspecify.annotations.Nullable;

/**
 * A queue of work that refers to the caller's bytes. Work {@code n} lies at index {@code n - 1} of
 * a ring, from when it is accepted, over when its requests are posted and when its bytes have left,
 * until it has taken effect: {@code delivered <= left <= posted <= accepted}.
 */
final class VerbsLane extends GroupLane<VerbsRegion> {
  private final VerbsWire wire;
  private final int mask;
  private QueuePair pair;

  /** Where the bytes come from; null for an add. */
  final @Nullable VerbsRegion[] local;

  /** Where in it; by how much, for an add. */
  final long[] localOffset;

  final @Nullable VerbsRegion[] remote;
  final long[] remoteOffset;
  final long[] bytes;
  final int[] counter;

  private long accepted;
  private long posted;
  private long left;
  private long delivered;

  /** Bytes of the next work that have been posted. */
  long postedBytes;

  VerbsLane(VerbsWire wire, QueuePair pair, Window window, int peer, int index) {
    super(wire, window, peer, index);
    this.wire = wire;
    this.pair = pair;
    int capacity = capacity(wire.config());
    mask = capacity - 1;
    local = new VerbsRegion[capacity];
    localOffset = new long[capacity];
    remote = new VerbsRegion[capacity];
    remoteOffset = new long[capacity];
    bytes = new long[capacity];
    counter = new int[capacity];
  }

  @Override
  protected VerbsRegion own(Region given) {
    return VerbsRegion.of(given, wire);
  }

  @Override
  protected long accept(
      @Nullable VerbsRegion source,
      long from,
      @Nullable VerbsRegion target,
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
    pair.expect(1);
    return ++accepted;
  }

  /** Whether there is work that is not posted. */
  boolean waits() {
    return posted != accepted;
  }

  /** Index of the next work to post. */
  int next() {
    return (int) posted & mask;
  }

  /** The next work is posted; its number. */
  long post() {
    postedBytes = 0;
    return ++posted;
  }

  /** The local bytes up to this work have left. */
  void left(long work) {
    left = Math.max(left, work);
  }

  /** All up to this work has taken effect. */
  void delivered(long work) {
    while (delivered < work) {
      release((int) delivered & mask);
      delivered++;
    }
  }

  private void release(int slot) {
    giveBack(bytes[slot]);
    local[slot] = null;
    remote[slot] = null;
  }

  /**
   * Its queue pair is lost, and what has taken effect is known: what has not is posted again over
   * another one, from the same bytes, which nobody was told may change.
   *
   * @return pieces of work to post; negative if bytes had left that never took effect
   */
  long move(QueuePair to) {
    if (left > delivered) {
      return -1;
    }
    pair = to;
    posted = delivered;
    postedBytes = 0;
    return accepted - posted;
  }

  /** Ends the lane, once. */
  void fail(Cause cause, String text) {
    failed(cause, text, delivered, accepted);
    for (long work = delivered; work < accepted; work++) {
      release((int) work & mask);
    }
    posted = accepted;
  }

  @Override
  public boolean flush() {
    requireOpen();
    if (failure() == null && waits()) {
      pair.send();
    }
    return failure() != null || left == accepted;
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
