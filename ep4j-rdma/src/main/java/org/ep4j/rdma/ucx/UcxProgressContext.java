package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.group.Group;
import org.ep4j.rdma.ucx.bindings.NativeBytes;
import org.ep4j.rdma.ucx.bindings.UcpCallbacks;
import org.ep4j.rdma.ucx.bindings.UcpConstants;
import org.ep4j.rdma.ucx.bindings.UcpLayouts;
import org.ep4j.rdma.ucx.bindings.UcpSetUp;
import org.ep4j.rdma.ucx.bindings.UcpStatus;
import org.ep4j.rdma.ucx.bindings.UcpTraffic;
import org.ep4j.wire.LaneFailure.Cause;
import org.jspecify.annotations.Nullable;

/**
 * A worker of UCX and its connections to every peer, driven by one thread. UCX calls back for
 * messages and for failed endpoints, during calls of this thread to UCX.
 */
final class UcxProgressContext implements UcpCallbacks.Handler {
  private final Group group;
  private final long ticket;
  private final int connections;
  private final Arena arena;
  private final RequestParams params;
  private final long worker;
  private final byte[] address;
  private final MemorySegment failures;
  // By number of the connection; null for this rank itself and for other progress contexts.
  private final @Nullable UcxConnection[] numbered;
  private UcxConnection[] peerConnections = {};
  private @Nullable Throwable thrown;
  private int arrived;
  private int looked;
  private boolean closed;

  /**
   * Opens a worker.
   *
   * @param ticket random number that messages of peers must contain
   */
  UcxProgressContext(UcxContext context, Group group, int connections, long ticket, Arena arena) {
    this.group = group;
    this.ticket = ticket;
    this.connections = connections;
    this.arena = arena;
    this.params = new RequestParams(arena);
    this.numbered = new UcxConnection[group.size() * connections];
    this.failures = UcpCallbacks.failures(this, arena);
    this.worker = context.createWorker();
    boolean opened = false;
    try {
      listen();
      this.address = askAddress();
      opened = true;
    } finally {
      if (!opened) {
        UcpSetUp.destroyWorker(worker);
      }
    }
  }

  private void listen() {
    try (Arena scratch = Arena.ofConfined()) {
      MemorySegment handler = scratch.allocate(UcpLayouts.AM_HANDLER_PARAM);
      UcxContext.setLong(
          handler,
          UcpLayouts.AM_HANDLER_PARAM,
          "field_mask",
          UcpConstants.UCP_AM_HANDLER_PARAM_FIELD_ID
              | UcpConstants.UCP_AM_HANDLER_PARAM_FIELD_FLAGS
              | UcpConstants.UCP_AM_HANDLER_PARAM_FIELD_CB);
      UcxContext.setInt(
          handler, UcpLayouts.AM_HANDLER_PARAM, "flags", UcpConstants.UCP_AM_FLAG_WHOLE_MSG);
      UcxContext.setLong(
          handler, UcpLayouts.AM_HANDLER_PARAM, "cb", UcpCallbacks.messages(this, arena).address());
      UcpStatus.check(
          UcpSetUp.setMessageHandler(worker, handler.address()), "ucp_worker_set_am_recv_handler");
    }
  }

  private byte[] askAddress() {
    try (Arena scratch = Arena.ofConfined()) {
      MemorySegment attributes = scratch.allocate(UcpLayouts.WORKER_ATTR);
      UcxContext.setLong(
          attributes,
          UcpLayouts.WORKER_ATTR,
          "field_mask",
          UcpConstants.UCP_WORKER_ATTR_FIELD_ADDRESS);
      UcpStatus.check(UcpSetUp.queryWorker(worker, attributes.address()), "ucp_worker_query");
      long at =
          attributes.get(
              ValueLayout.JAVA_LONG, UcpLayouts.offset(UcpLayouts.WORKER_ATTR, "address"));
      long bytes =
          attributes.get(
              ValueLayout.JAVA_LONG, UcpLayouts.offset(UcpLayouts.WORKER_ATTR, "address_length"));
      byte[] copy = NativeBytes.at(at, bytes, Arena.global()).toArray(ValueLayout.JAVA_BYTE);
      UcpSetUp.releaseAddress(worker, at);
      return copy;
    }
  }

  /** Address of this worker for endpoints of peers. */
  byte[] address() {
    return address.clone();
  }

  RequestParams params() {
    return params;
  }

  /**
   * Creates an endpoint to the worker of a peer.
   *
   * @param number number of its connection
   * @throws org.ep4j.wire.WireException if UCX cannot reach the worker
   */
  long connect(byte[] peersAddress, int number) {
    try (Arena scratch = Arena.ofConfined()) {
      MemorySegment out = scratch.allocate(ValueLayout.JAVA_LONG);
      MemorySegment endpoint = scratch.allocate(UcpLayouts.EP_PARAMS);
      MemorySegment remote = scratch.allocate(peersAddress.length, 8);
      MemorySegment.copy(peersAddress, 0, remote, ValueLayout.JAVA_BYTE, 0, peersAddress.length);
      UcxContext.setLong(
          endpoint,
          UcpLayouts.EP_PARAMS,
          "field_mask",
          UcpConstants.UCP_EP_PARAM_FIELD_REMOTE_ADDRESS
              | UcpConstants.UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
              | UcpConstants.UCP_EP_PARAM_FIELD_ERR_HANDLER);
      UcxContext.setLong(endpoint, UcpLayouts.EP_PARAMS, "address", remote.address());
      UcxContext.setInt(
          endpoint, UcpLayouts.EP_PARAMS, "err_mode", UcpConstants.UCP_ERR_HANDLING_MODE_PEER);
      UcxContext.setLong(endpoint, UcpLayouts.EP_PARAMS, "err_handler.cb", failures.address());
      UcxContext.setLong(endpoint, UcpLayouts.EP_PARAMS, "err_handler.arg", number);
      UcpStatus.check(
          UcpSetUp.createEndpoint(worker, endpoint.address(), out.address()),
          "ucp_ep_create to rank "
              + number / connections
              + " (no transport of UCX_TLS reaches it and reports failures)");
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Sets the connections over this worker. */
  void peerConnections(UcxConnection[] peerConnections) {
    this.peerConnections = peerConnections;
    for (UcxConnection peerConnection : peerConnections) {
      numbered[peerConnection.number()] = peerConnection;
    }
  }

  UcxConnection[] peerConnections() {
    return peerConnections;
  }

  int poll() {
    int done = 0;
    for (UcxConnection peerConnection : peerConnections) {
      done += peerConnection.send();
    }
    arrived = 0;
    int progress = UcpTraffic.progress(worker);
    Throwable seen = thrown;
    if (seen != null) {
      thrown = null;
      throw new IllegalStateException("the handler of a message failed", seen);
    }
    // UCX also counts internal work as progress; a waiting caller must still check its deadline.
    done += arrived;
    if (done == 0 && progress == 0) {
      look();
    }
    return done;
  }

  /**
   * Checks the liveness of one peer, and what it reports: not every transport reports a death or a
   * path that is cut, and none quickly.
   */
  private void look() {
    if (peerConnections.length == 0) {
      return;
    }
    looked = looked + 1 >= peerConnections.length ? 0 : looked + 1;
    UcxConnection peerConnection = peerConnections[looked];
    if (peerConnection.hasEnded()) {
      return;
    }
    if (!group.isAlive(peerConnection.peer())) {
      peerConnection.departed(String.valueOf(group.deathReport(peerConnection.peer())));
    } else {
      peerConnection.heedReports();
    }
  }

  @Override
  public void message(long at, long bytes) {
    arrived++;
    MemorySegment all = NativeBytes.ALL;
    if (bytes < MessageLayout.HEADER || MessageLayout.ticket(all, at) != ticket) {
      return;
    }
    int rank = MessageLayout.rank(all, at);
    int connection = MessageLayout.connection(all, at);
    if (rank < 0 || rank >= group.size() || connection < 0 || connection >= connections) {
      return;
    }
    UcxConnection peerConnection = numbered[rank * connections + connection];
    if (peerConnection == null) {
      return;
    }
    try {
      peerConnection.arrivals().message(at, bytes);
    } catch (IllegalStateException | IndexOutOfBoundsException e) {
      peerConnection.condemn(
          Cause.PROTOCOL, "a put targets memory that was freed: " + e.getMessage());
    }
  }

  @Override
  public void endpointFailed(int number, int status) {
    arrived++;
    UcxConnection peerConnection = numbered[number];
    if (peerConnection != null) {
      peerConnection.lost("the connection failed", status);
    }
  }

  @Override
  public void threw(Throwable problem) {
    thrown = problem;
  }

  /** Destroys the worker and its remaining endpoints. */
  void close() {
    if (!closed) {
      closed = true;
      UcpSetUp.destroyWorker(worker);
    }
  }
}
