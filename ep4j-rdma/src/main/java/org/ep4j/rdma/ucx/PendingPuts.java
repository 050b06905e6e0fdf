package org.ep4j.rdma.ucx;

import org.ep4j.rdma.ucx.bindings.UcpConstants;
import org.ep4j.rdma.ucx.bindings.UcpStatus;
import org.ep4j.rdma.ucx.bindings.UcpTraffic;

/**
 * Pending puts of a connection, and the flushes that report their visibility. Puts are numbered
 * from 1. Puts up to {@code visible} are visible at the peer, and UCX no longer reads their local
 * bytes: {@code visible <= posted}. A flush covers the puts posted before it. Several flushes can
 * be pending; they are polled in order.
 */
final class PendingPuts {
  /** Maximum size of one put of UCX, so that lanes share the connection. */
  static final long LONGEST = 4L << 20;

  private static final int MAX = 256;
  private static final long MAX_BYTES = 16L << 20;
  private static final int FLUSHES = 8;

  private final RequestParams params;
  private final long[] requests = new long[MAX];
  private final long[] bytes = new long[MAX];
  private long posted;
  private long visible;
  private long bytesInFlight;

  private final long[] flushRequests = new long[FLUSHES];
  private final long[] flushPuts = new long[FLUSHES];
  private long flushes;
  private long flushed;

  /** Puts that a pending or ended flush covers. */
  private long coveredPuts;

  /** Puts that an ended flush covers. */
  private long flushedPuts;

  PendingPuts(RequestParams params) {
    this.params = params;
  }

  long posted() {
    return posted;
  }

  long visible() {
    return visible;
  }

  boolean hasSpace() {
    return posted - visible < MAX && bytesInFlight < MAX_BYTES;
  }

  /** Whether UCX has no pending work of this connection. */
  boolean isIdle() {
    return visible == posted && flushed == flushes;
  }

  /** Posts a put; returns 0, or the status of a failure. */
  int post(long endpoint, long from, long size, long to, long key, long memory) {
    long request = UcpTraffic.put(endpoint, from, size, to, key, params.put(memory));
    if (UcpStatus.isError(request)) {
      return (int) request;
    }
    int slot = (int) (posted % MAX);
    requests[slot] = request;
    bytes[slot] = size;
    bytesInFlight += size;
    posted++;
    return 0;
  }

  /** Whether posted puts are not covered by a flush. */
  boolean wantsFlush() {
    return coveredPuts != posted;
  }

  /**
   * Starts a flush if it covers new puts, and the number of pending flushes allows it.
   *
   * @return 0, or the status of a failure
   */
  int flush(long endpoint) {
    if (!wantsFlush() || flushes - flushed == FLUSHES) {
      return 0;
    }
    long request = UcpTraffic.flush(endpoint, params.plain);
    if (UcpStatus.isError(request)) {
      return (int) request;
    }
    int slot = (int) (flushes % FLUSHES);
    flushRequests[slot] = request;
    flushPuts[slot] = posted;
    coveredPuts = posted;
    flushes++;
    return request == 0 ? reap() : 0;
  }

  /** Polls puts and flushes; returns 0, or the status of a failure. */
  int reap() {
    int failure = 0;
    while (flushed < flushes) {
      int slot = (int) (flushed % FLUSHES);
      long request = flushRequests[slot];
      if (request != 0) {
        byte status = UcpTraffic.status(request);
        if (status == UcpConstants.UCS_INPROGRESS) {
          break;
        }
        UcpTraffic.free(request);
        failure = status < 0 ? status : failure;
      }
      flushedPuts = flushPuts[slot];
      flushed++;
    }
    return reap(flushedPuts, failure);
  }

  /** Frees the puts of a closed endpoint, which end without a flush. */
  void reapAbandoned() {
    int _ = reap();
    int _ = reap(posted, 0);
  }

  private int reap(long upTo, int before) {
    int failure = before;
    while (visible < upTo) {
      int slot = (int) (visible % MAX);
      long request = requests[slot];
      if (request != 0) {
        byte status = UcpTraffic.status(request);
        if (status == UcpConstants.UCS_INPROGRESS) {
          break;
        }
        UcpTraffic.free(request);
        requests[slot] = 0;
        failure = status < 0 ? status : failure;
      }
      bytesInFlight -= bytes[slot];
      visible++;
    }
    return failure;
  }
}
