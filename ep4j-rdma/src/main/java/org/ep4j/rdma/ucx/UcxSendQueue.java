package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Messages of a link on their way out. Message {@code n} lies in buffer {@code n % BUFFERS} from
 * when it is begun until UCX has taken its bytes: {@code taken <= sent}.
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

  /** Whether a message may be begun. */
  boolean hasSpace() {
    return sent - taken < BUFFERS;
  }

  /** Number of messages that were sent; the next has the number behind it. */
  long sent() {
    return sent;
  }

  /** Messages up to this number are out of their buffers. */
  long taken() {
    return taken;
  }

  /** Where the next message is made. */
  MemorySegment staging() {
    return staging;
  }

  /** Where in it. */
  long begin() {
    return (sent + 1) % BUFFERS * MessageLayout.BYTES;
  }

  /**
   * Sends the message that has been made.
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

  /** Looks which messages have been taken; 0, or the status of a failure among them. */
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
