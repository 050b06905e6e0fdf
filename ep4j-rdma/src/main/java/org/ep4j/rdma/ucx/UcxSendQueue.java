package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.rdma.ucx.bindings.UcpConstants;
import org.ep4j.rdma.ucx.bindings.UcpStatus;
import org.ep4j.rdma.ucx.bindings.UcpTraffic;

/**
 * Outgoing messages of a connection. Message {@code n} occupies buffer {@code n % BUFFERS} from its
 * begin until UCX no longer reads its bytes: {@code taken <= sent}.
 */
final class UcxSendQueue {
  private static final int BUFFERS = 8;

  private final MemorySegment staging;
  private final long address;
  private final RequestParams params;
  private final long[] requests = new long[BUFFERS];
  private long sent;
  private long taken;

  UcxSendQueue(Arena arena, RequestParams params) {
    this.staging = arena.allocate((long) BUFFERS * MessageLayout.BYTES, 64);
    this.address = staging.address();
    this.params = params;
  }

  /** Whether a buffer for a message is free. */
  boolean hasSpace() {
    return sent - taken < BUFFERS;
  }

  /** Number of sent messages, which is the number of the last one. */
  long sent() {
    return sent;
  }

  /** Messages up to this number have left their buffers. */
  long taken() {
    return taken;
  }

  /** Memory of the next message. */
  MemorySegment staging() {
    return staging;
  }

  /** Offset of the next message. */
  long begin() {
    return (sent + 1) % BUFFERS * MessageLayout.BYTES;
  }

  /**
   * Sends the message in the staging memory.
   *
   * @return 0, or the status of a failure
   */
  int send(long endpoint, int bytes) {
    long request = UcpTraffic.send(endpoint, 0, 0, 0, address + begin(), bytes, params.message);
    if (UcpStatus.isError(request)) {
      return (int) request;
    }
    sent++;
    requests[(int) (sent % BUFFERS)] = request;
    int _ = reap();
    return 0;
  }

  /** Polls the messages; returns 0, or the status of a failure. */
  int reap() {
    int failure = 0;
    while (taken < sent) {
      int slot = (int) ((taken + 1) % BUFFERS);
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
      taken++;
    }
    return failure;
  }
}
