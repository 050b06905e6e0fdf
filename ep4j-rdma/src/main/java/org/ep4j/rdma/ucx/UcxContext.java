package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import org.ep4j.error.ErrorCode;
import org.ep4j.rdma.ucx.bindings.UcpConstants;
import org.ep4j.rdma.ucx.bindings.UcpLayouts;
import org.ep4j.rdma.ucx.bindings.UcpSetUp;
import org.ep4j.rdma.ucx.bindings.UcpStatus;
import org.ep4j.rdma.ucx.bindings.UcxLibrary;
import org.ep4j.wire.WireException;

/** A context of UCX: memory is registered with it, and workers are made from it. */
final class UcxContext implements AutoCloseable {
  private final long handle;
  private boolean closed;

  private UcxContext(long handle) {
    this.handle = handle;
  }

  /**
   * Opens a context for several workers.
   *
   * @param endpoints estimated number of endpoints
   */
  static UcxContext open(int endpoints) {
    UcxSettings.prepare();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      UcpStatus.check(UcpSetUp.readConfig(0, 0, out.address()), "ucp_config_read");
      long config = out.get(ValueLayout.JAVA_LONG, 0);
      try {
        UcxSettings.apply(config);
        MemorySegment params = arena.allocate(UcpLayouts.PARAMS);
        setLong(
            params,
            UcpLayouts.PARAMS,
            "field_mask",
            UcpConstants.UCP_PARAM_FIELD_FEATURES
                | UcpConstants.UCP_PARAM_FIELD_MT_WORKERS_SHARED
                | UcpConstants.UCP_PARAM_FIELD_ESTIMATED_NUM_EPS);
        setLong(
            params,
            UcpLayouts.PARAMS,
            "features",
            UcpConstants.UCP_FEATURE_RMA | UcpConstants.UCP_FEATURE_AM);
        setInt(params, UcpLayouts.PARAMS, "mt_workers_shared", 1);
        setLong(params, UcpLayouts.PARAMS, "estimated_num_eps", endpoints);
        byte status =
            UcpSetUp.init(
                UcxLibrary.MAJOR, UcxLibrary.MINOR, params.address(), config, out.address());
        UcpStatus.check(
            status, "ucp_init (check that UCX_TLS and UCX_NET_DEVICES name what exists)");
      } finally {
        UcpSetUp.releaseConfig(config);
      }
      UcxContext context = new UcxContext(out.get(ValueLayout.JAVA_LONG, 0));
      context.requireThreads();
      return context;
    }
  }

  /** Other threads poll progress contexts while regions are created. */
  private void requireThreads() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment attributes = arena.allocate(UcpLayouts.CONTEXT_ATTR);
      setLong(
          attributes,
          UcpLayouts.CONTEXT_ATTR,
          "field_mask",
          UcpConstants.UCP_ATTR_FIELD_THREAD_MODE);
      byte status = UcpSetUp.queryContext(handle, attributes.address());
      int mode =
          attributes.get(
              ValueLayout.JAVA_INT, UcpLayouts.offset(UcpLayouts.CONTEXT_ATTR, "thread_mode"));
      if (status != UcpConstants.UCS_OK || mode != UcpConstants.UCS_THREAD_MODE_MULTI) {
        close();
        throw new WireException(
            ErrorCode.UCX_SINGLE_THREADED,
            "this libucp does not support several threads:"
                + " install one that was configured with --enable-mt");
      }
    }
  }

  /** New zeroed memory of a kind that the transports prefer. */
  UcxMemory allocate(long bytes) {
    return map(0, Math.max(bytes, 64), UcpConstants.UCP_MEM_MAP_ALLOCATE);
  }

  /** Registers memory of the caller. */
  UcxMemory register(long address, long bytes) {
    return map(address, bytes, 0);
  }

  private UcxMemory map(long address, long bytes, int flags) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      MemorySegment params = arena.allocate(UcpLayouts.MEM_MAP_PARAMS);
      setLong(
          params,
          UcpLayouts.MEM_MAP_PARAMS,
          "field_mask",
          UcpConstants.UCP_MEM_MAP_PARAM_FIELD_ADDRESS
              | UcpConstants.UCP_MEM_MAP_PARAM_FIELD_LENGTH
              | UcpConstants.UCP_MEM_MAP_PARAM_FIELD_FLAGS);
      setLong(params, UcpLayouts.MEM_MAP_PARAMS, "address", address);
      setLong(params, UcpLayouts.MEM_MAP_PARAMS, "length", bytes);
      setInt(params, UcpLayouts.MEM_MAP_PARAMS, "flags", flags);
      UcpStatus.check(
          UcpSetUp.mapMemory(handle, params.address(), out.address()),
          "ucp_mem_map of " + bytes + " bytes");
      long memory = out.get(ValueLayout.JAVA_LONG, 0);
      MemorySegment attributes = arena.allocate(UcpLayouts.MEM_ATTR);
      setLong(
          attributes, UcpLayouts.MEM_ATTR, "field_mask", UcpConstants.UCP_MEM_ATTR_FIELD_ADDRESS);
      UcpStatus.check(UcpSetUp.queryMemory(memory, attributes.address()), "ucp_mem_query");
      long at =
          attributes.get(ValueLayout.JAVA_LONG, UcpLayouts.offset(UcpLayouts.MEM_ATTR, "address"));
      return new UcxMemory(handle, memory, at);
    }
  }

  /** A worker for one thread at a time. */
  long createWorker() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      MemorySegment params = arena.allocate(UcpLayouts.WORKER_PARAMS);
      setLong(
          params,
          UcpLayouts.WORKER_PARAMS,
          "field_mask",
          UcpConstants.UCP_WORKER_PARAM_FIELD_THREAD_MODE);
      setInt(
          params, UcpLayouts.WORKER_PARAMS, "thread_mode", UcpConstants.UCS_THREAD_MODE_SERIALIZED);
      UcpStatus.check(
          UcpSetUp.createWorker(handle, params.address(), out.address()), "ucp_worker_create");
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  static void setLong(MemorySegment to, StructLayout layout, String field, long value) {
    to.set(ValueLayout.JAVA_LONG, UcpLayouts.offset(layout, field), value);
  }

  static void setInt(MemorySegment to, StructLayout layout, String field, int value) {
    to.set(ValueLayout.JAVA_INT, UcpLayouts.offset(layout, field), value);
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      UcpSetUp.cleanUp(handle);
    }
  }
}
