package org.ep4j.rdma.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.rdma.verbs.bindings.VerbsControlLayout;
import org.ep4j.rdma.verbs.bindings.VerbsException;
import org.ep4j.rdma.verbs.bindings.VerbsLayouts;
import org.ep4j.rdma.verbs.bindings.VerbsQueues;

/**
 * The receives of a queue pair: a ring of {@code ibv_recv_wr}, each with the place of its message
 * in the block. Receives are used in posting order.
 */
final class ReceiveRing {
  private static final long REQUEST = VerbsLayouts.RECEIVE.byteSize();
  private static final long ID = VerbsLayouts.offset(VerbsLayouts.RECEIVE, "wr_id");
  private static final long NEXT = VerbsLayouts.offset(VerbsLayouts.RECEIVE, "next");
  private static final long PIECES = VerbsLayouts.offset(VerbsLayouts.RECEIVE, "sg_list");
  private static final long COUNT = VerbsLayouts.offset(VerbsLayouts.RECEIVE, "num_sge");

  private static final long PIECE = VerbsLayouts.PIECE.byteSize();
  private static final long ADDRESS = VerbsLayouts.offset(VerbsLayouts.PIECE, "addr");
  private static final long LENGTH = VerbsLayouts.offset(VerbsLayouts.PIECE, "length");
  private static final long KEY = VerbsLayouts.offset(VerbsLayouts.PIECE, "lkey");

  private final int size;
  private final MemorySegment requests;
  private final long refused;

  /** Used receives, and those of them that are reposted. */
  private long used;

  private long renewed;

  /**
   * Creates receives, not posted yet.
   *
   * @param block address of the places, see {@link VerbsControlLayout}
   * @param key of that memory
   */
  ReceiveRing(int pair, int size, long block, int key, Arena arena) {
    this.size = size;
    requests = arena.allocate(size * REQUEST, 64);
    refused = arena.allocate(ValueLayout.JAVA_LONG).address();
    MemorySegment pieces = arena.allocate(size * PIECE, 64);
    for (int i = 0; i < size; i++) {
      pieces.set(ValueLayout.JAVA_LONG, i * PIECE + ADDRESS, block + VerbsControlLayout.place(i));
      pieces.set(ValueLayout.JAVA_INT, i * PIECE + LENGTH, VerbsControlLayout.MESSAGE_BYTES);
      pieces.set(ValueLayout.JAVA_INT, i * PIECE + KEY, key);
      requests.set(ValueLayout.JAVA_LONG, i * REQUEST + ID, RequestId.receive(pair));
      requests.set(ValueLayout.JAVA_LONG, i * REQUEST + PIECES, pieces.address() + i * PIECE);
      requests.set(ValueLayout.JAVA_INT, i * REQUEST + COUNT, 1);
      link(i);
    }
  }

  private void link(int i) {
    long next = i + 1 < size ? requests.address() + (i + 1) * REQUEST : 0;
    requests.set(ValueLayout.JAVA_LONG, i * REQUEST + NEXT, next);
  }

  /** Posts all of them, once. */
  void postAll(MemorySegment function, long pair) {
    VerbsException.check(
        VerbsQueues.post(function, pair, requests.address(), refused), "ibv_post_recv");
  }

  /** Marks the next receive as used; returns its index. */
  int use() {
    int index = (int) (used % size);
    used++;
    return index;
  }

  /** Number of used receives. */
  long used() {
    return used;
  }

  /** Receives that the device holds, or has returned unused. */
  int posted() {
    return size - waiting();
  }

  /** Used receives that are not reposted. */
  int waiting() {
    return (int) (used - renewed);
  }

  /**
   * Reposts used receives.
   *
   * @return 0 or an error number
   */
  int renew(MemorySegment function, long pair) {
    while (renewed < used) {
      int first = (int) (renewed % size);
      int count = (int) Math.min(used - renewed, size - first);
      int last = first + count - 1;
      requests.set(ValueLayout.JAVA_LONG, last * REQUEST + NEXT, 0);
      int error = VerbsQueues.post(function, pair, requests.address() + first * REQUEST, refused);
      link(last);
      if (error != 0) {
        return error;
      }
      renewed += count;
    }
    return 0;
  }
}
