package org.ep4j.rdma.ucx.bindings;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;

/**
 * Structures of the UCX interface; a test compares them with the headers, if installed. Each has a
 * mask of its valid fields, so libraries of other versions read and write only the fields named
 * here.
 */
public final class UcpLayouts {
  /** {@code ucp_params_t}. */
  public static final StructLayout PARAMS =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_LONG.withName("field_mask"),
              ValueLayout.JAVA_LONG.withName("features"),
              ValueLayout.JAVA_LONG.withName("request_size"),
              ValueLayout.JAVA_LONG.withName("request_init"),
              ValueLayout.JAVA_LONG.withName("request_cleanup"),
              ValueLayout.JAVA_LONG.withName("tag_sender_mask"),
              ValueLayout.JAVA_INT.withName("mt_workers_shared"),
              MemoryLayout.paddingLayout(4),
              ValueLayout.JAVA_LONG.withName("estimated_num_eps"),
              ValueLayout.JAVA_LONG.withName("estimated_num_ppn"),
              ValueLayout.JAVA_LONG.withName("name"))
          .withName("ucp_params_t");

  /** {@code ucp_context_attr_t}. */
  public static final StructLayout CONTEXT_ATTR =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_LONG.withName("field_mask"),
              ValueLayout.JAVA_LONG.withName("request_size"),
              ValueLayout.JAVA_INT.withName("thread_mode"),
              MemoryLayout.paddingLayout(4),
              ValueLayout.JAVA_LONG.withName("memory_types"),
              MemoryLayout.sequenceLayout(32, ValueLayout.JAVA_BYTE).withName("name"))
          .withName("ucp_context_attr_t");

  /** {@code ucp_worker_params_t}. */
  public static final StructLayout WORKER_PARAMS =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_LONG.withName("field_mask"),
              ValueLayout.JAVA_INT.withName("thread_mode"),
              MemoryLayout.paddingLayout(4),
              MemoryLayout.sequenceLayout(16, ValueLayout.JAVA_LONG).withName("cpu_mask"),
              ValueLayout.JAVA_INT.withName("events"),
              MemoryLayout.paddingLayout(4),
              ValueLayout.JAVA_LONG.withName("user_data"),
              ValueLayout.JAVA_INT.withName("event_fd"),
              MemoryLayout.paddingLayout(4),
              ValueLayout.JAVA_LONG.withName("flags"),
              ValueLayout.JAVA_LONG.withName("name"),
              ValueLayout.JAVA_LONG.withName("am_alignment"),
              ValueLayout.JAVA_LONG.withName("client_id"))
          .withName("ucp_worker_params_t");

  /** {@code ucp_worker_attr_t}. */
  public static final StructLayout WORKER_ATTR =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_LONG.withName("field_mask"),
              ValueLayout.JAVA_INT.withName("thread_mode"),
              ValueLayout.JAVA_INT.withName("address_flags"),
              ValueLayout.JAVA_LONG.withName("address"),
              ValueLayout.JAVA_LONG.withName("address_length"),
              ValueLayout.JAVA_LONG.withName("max_am_header"),
              MemoryLayout.sequenceLayout(32, ValueLayout.JAVA_BYTE).withName("name"),
              ValueLayout.JAVA_LONG.withName("max_debug_string"))
          .withName("ucp_worker_attr_t");

  /** {@code ucp_am_handler_param_t}. */
  public static final StructLayout AM_HANDLER_PARAM =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_LONG.withName("field_mask"),
              ValueLayout.JAVA_INT.withName("id"),
              ValueLayout.JAVA_INT.withName("flags"),
              ValueLayout.JAVA_LONG.withName("cb"),
              ValueLayout.JAVA_LONG.withName("arg"))
          .withName("ucp_am_handler_param_t");

  /** {@code ucp_ep_params_t} with nested structures flattened. */
  public static final StructLayout EP_PARAMS =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_LONG.withName("field_mask"),
              ValueLayout.JAVA_LONG.withName("address"),
              ValueLayout.JAVA_INT.withName("err_mode"),
              MemoryLayout.paddingLayout(4),
              ValueLayout.JAVA_LONG.withName("err_handler.cb"),
              ValueLayout.JAVA_LONG.withName("err_handler.arg"),
              ValueLayout.JAVA_LONG.withName("user_data"),
              ValueLayout.JAVA_INT.withName("flags"),
              MemoryLayout.paddingLayout(4),
              ValueLayout.JAVA_LONG.withName("sockaddr.addr"),
              ValueLayout.JAVA_INT.withName("sockaddr.addrlen"),
              MemoryLayout.paddingLayout(4),
              ValueLayout.JAVA_LONG.withName("conn_request"),
              ValueLayout.JAVA_LONG.withName("name"),
              ValueLayout.JAVA_LONG.withName("local_sockaddr.addr"),
              ValueLayout.JAVA_INT.withName("local_sockaddr.addrlen"),
              MemoryLayout.paddingLayout(4))
          .withName("ucp_ep_params_t");

  /** {@code ucp_mem_map_params_t}. */
  public static final StructLayout MEM_MAP_PARAMS =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_LONG.withName("field_mask"),
              ValueLayout.JAVA_LONG.withName("address"),
              ValueLayout.JAVA_LONG.withName("length"),
              ValueLayout.JAVA_INT.withName("flags"),
              ValueLayout.JAVA_INT.withName("prot"),
              ValueLayout.JAVA_INT.withName("memory_type"),
              MemoryLayout.paddingLayout(4))
          .withName("ucp_mem_map_params_t");

  /** {@code ucp_mem_attr_t}. */
  public static final StructLayout MEM_ATTR =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_LONG.withName("field_mask"),
              ValueLayout.JAVA_LONG.withName("address"),
              ValueLayout.JAVA_LONG.withName("length"),
              ValueLayout.JAVA_INT.withName("mem_type"),
              MemoryLayout.paddingLayout(4))
          .withName("ucp_mem_attr_t");

  /** {@code ucp_request_param_t}. */
  public static final StructLayout REQUEST_PARAM =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_INT.withName("op_attr_mask"),
              ValueLayout.JAVA_INT.withName("flags"),
              ValueLayout.JAVA_LONG.withName("request"),
              ValueLayout.JAVA_LONG.withName("cb"),
              ValueLayout.JAVA_LONG.withName("datatype"),
              ValueLayout.JAVA_LONG.withName("user_data"),
              ValueLayout.JAVA_LONG.withName("reply_buffer"),
              ValueLayout.JAVA_INT.withName("memory_type"),
              MemoryLayout.paddingLayout(4),
              ValueLayout.JAVA_LONG.withName("recv_info"),
              ValueLayout.JAVA_LONG.withName("memh"))
          .withName("ucp_request_param_t");

  private UcpLayouts() {}

  /** Offset of a field. */
  public static long offset(StructLayout structure, String field) {
    return structure.byteOffset(PathElement.groupElement(field));
  }
}
