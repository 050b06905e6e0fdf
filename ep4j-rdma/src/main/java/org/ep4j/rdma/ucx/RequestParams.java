package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.rdma.ucx.bindings.UcpConstants;
import org.ep4j.rdma.ucx.bindings.UcpLayouts;

/** Parameter structures of requests; one set per progress context, filled once. */
final class RequestParams {
  private static final long MEMH = UcpLayouts.offset(UcpLayouts.REQUEST_PARAM, "memh");

  /** For {@code ucp_am_send_nbx}: eager, without a rendezvous with the receiver. */
  final long message;

  /** For calls without parameters. */
  final long plain;

  /** For {@code ucp_ep_close_nbx} without a final flush. */
  final long force;

  private final MemorySegment put;

  RequestParams(Arena arena) {
    message =
        make(
                arena,
                UcpConstants.UCP_OP_ATTR_FIELD_FLAGS | UcpConstants.UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                UcpConstants.UCP_AM_SEND_FLAG_EAGER)
            .address();
    plain = make(arena, 0, 0).address();
    force =
        make(arena, UcpConstants.UCP_OP_ATTR_FIELD_FLAGS, UcpConstants.UCP_EP_CLOSE_FLAG_FORCE)
            .address();
    put =
        make(
            arena,
            UcpConstants.UCP_OP_ATTR_FIELD_MEMH | UcpConstants.UCP_OP_ATTR_FIELD_MEMORY_TYPE,
            0);
  }

  private static MemorySegment make(Arena arena, int mask, int flags) {
    MemorySegment params = arena.allocate(UcpLayouts.REQUEST_PARAM);
    UcxContext.setInt(params, UcpLayouts.REQUEST_PARAM, "op_attr_mask", mask);
    UcxContext.setInt(params, UcpLayouts.REQUEST_PARAM, "flags", flags);
    UcxContext.setInt(
        params, UcpLayouts.REQUEST_PARAM, "memory_type", UcpConstants.UCS_MEMORY_TYPE_HOST);
    return params;
  }

  /** For {@code ucp_put_nbx} from registered memory. */
  long put(long memory) {
    put.set(ValueLayout.JAVA_LONG, MEMH, memory);
    return put.address();
  }
}
