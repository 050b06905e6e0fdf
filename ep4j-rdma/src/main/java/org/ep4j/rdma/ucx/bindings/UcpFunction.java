package org.ep4j.rdma.ucx.bindings;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/**
 * The functions of UCX that ep4j calls: symbol and signature. Pointers and handles are longs,
 * because segments would add liveness checks. A status is one byte, as packed in the header. A test
 * compares all signatures with the headers, if installed.
 */
public enum UcpFunction {
  GET_VERSION("ucp_get_version", null, Kind.LONG, Kind.LONG, Kind.LONG),
  CONFIG_READ("ucp_config_read", Kind.STATUS, Kind.LONG, Kind.LONG, Kind.LONG),
  CONFIG_MODIFY("ucp_config_modify", Kind.STATUS, Kind.LONG, Kind.LONG, Kind.LONG),
  CONFIG_RELEASE("ucp_config_release", null, Kind.LONG),
  INIT_VERSION(
      "ucp_init_version", Kind.STATUS, Kind.INT, Kind.INT, Kind.LONG, Kind.LONG, Kind.LONG),
  CLEANUP("ucp_cleanup", null, Kind.LONG),
  CONTEXT_QUERY("ucp_context_query", Kind.STATUS, Kind.LONG, Kind.LONG),
  WORKER_CREATE("ucp_worker_create", Kind.STATUS, Kind.LONG, Kind.LONG, Kind.LONG),
  WORKER_DESTROY("ucp_worker_destroy", null, Kind.LONG),
  WORKER_QUERY("ucp_worker_query", Kind.STATUS, Kind.LONG, Kind.LONG),
  WORKER_RELEASE_ADDRESS("ucp_worker_release_address", null, Kind.LONG, Kind.LONG),
  WORKER_SET_AM_RECV_HANDLER("ucp_worker_set_am_recv_handler", Kind.STATUS, Kind.LONG, Kind.LONG),
  WORKER_PROGRESS("ucp_worker_progress", Kind.INT, Kind.LONG),
  EP_CREATE("ucp_ep_create", Kind.STATUS, Kind.LONG, Kind.LONG, Kind.LONG),
  EP_CLOSE("ucp_ep_close_nbx", Kind.LONG, Kind.LONG, Kind.LONG),
  EP_FLUSH("ucp_ep_flush_nbx", Kind.LONG, Kind.LONG, Kind.LONG),
  MEM_MAP("ucp_mem_map", Kind.STATUS, Kind.LONG, Kind.LONG, Kind.LONG),
  MEM_UNMAP("ucp_mem_unmap", Kind.STATUS, Kind.LONG, Kind.LONG),
  MEM_QUERY("ucp_mem_query", Kind.STATUS, Kind.LONG, Kind.LONG),
  RKEY_PACK("ucp_rkey_pack", Kind.STATUS, Kind.LONG, Kind.LONG, Kind.LONG, Kind.LONG),
  RKEY_BUFFER_RELEASE("ucp_rkey_buffer_release", null, Kind.LONG),
  EP_RKEY_UNPACK("ucp_ep_rkey_unpack", Kind.STATUS, Kind.LONG, Kind.LONG, Kind.LONG),
  RKEY_DESTROY("ucp_rkey_destroy", null, Kind.LONG),
  AM_SEND(
      "ucp_am_send_nbx",
      Kind.LONG,
      Kind.LONG,
      Kind.INT,
      Kind.LONG,
      Kind.LONG,
      Kind.LONG,
      Kind.LONG,
      Kind.LONG),
  PUT("ucp_put_nbx", Kind.LONG, Kind.LONG, Kind.LONG, Kind.LONG, Kind.LONG, Kind.LONG, Kind.LONG),
  REQUEST_CHECK_STATUS("ucp_request_check_status", Kind.STATUS, Kind.LONG),
  REQUEST_FREE("ucp_request_free", null, Kind.LONG),
  STATUS_STRING("ucs_status_string", Kind.LONG, Kind.STATUS);

  /** Types of parameters and results. */
  private static final class Kind {
    static final MemoryLayout STATUS = ValueLayout.JAVA_BYTE;
    static final MemoryLayout INT = ValueLayout.JAVA_INT;
    static final MemoryLayout LONG = ValueLayout.JAVA_LONG;
  }

  private final String symbol;

  @SuppressWarnings("ImmutableEnumChecker") // descriptors are immutable but not annotated
  private final FunctionDescriptor descriptor;

  UcpFunction(String symbol, @Nullable MemoryLayout result, MemoryLayout... parameters) {
    this.symbol = symbol;
    this.descriptor =
        result == null
            ? FunctionDescriptor.ofVoid(parameters)
            : FunctionDescriptor.of(result, parameters);
  }

  public String symbol() {
    return symbol;
  }

  public FunctionDescriptor descriptor() {
    return descriptor;
  }
}
