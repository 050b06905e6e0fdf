package org.ep4j.rdma.verbs.bindings;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.PaddingLayout;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;

/**
 * Structures of libibverbs; a test compares them with the headers, if installed. Pointers are
 * 8-byte numbers; members of nested structures are flattened, named by their path.
 */
public final class VerbsLayouts {
  /** {@code ibv_sge}: a piece of local memory. */
  public static final StructLayout PIECE =
      struct("ibv_sge", number("addr"), integer("length"), integer("lkey"));

  /** {@code ibv_send_wr}; its last 76 bytes are for unused kinds of requests. */
  public static final StructLayout SEND =
      struct(
          "ibv_send_wr",
          number("wr_id"),
          number("next"),
          number("sg_list"),
          integer("num_sge"),
          integer("opcode"),
          integer("send_flags"),
          integer("imm_data"),
          number("wr.rdma.remote_addr"),
          integer("wr.rdma.rkey"),
          gap(76));

  /** {@code ibv_recv_wr}. */
  public static final StructLayout RECEIVE =
      struct(
          "ibv_recv_wr",
          number("wr_id"),
          number("next"),
          number("sg_list"),
          integer("num_sge"),
          gap(4));

  /** {@code ibv_wc}: a completion. */
  public static final StructLayout COMPLETION =
      struct(
          "ibv_wc",
          number("wr_id"),
          integer("status"),
          integer("opcode"),
          integer("vendor_err"),
          integer("byte_len"),
          integer("imm_data"),
          integer("qp_num"),
          gap(16));

  /** {@code ibv_qp_init_attr}. */
  public static final StructLayout QUEUE_PAIR_REQUEST =
      struct(
          "ibv_qp_init_attr",
          gap(8),
          number("send_cq"),
          number("recv_cq"),
          gap(8),
          integer("cap.max_send_wr"),
          integer("cap.max_recv_wr"),
          integer("cap.max_send_sge"),
          integer("cap.max_recv_sge"),
          integer("cap.max_inline_data"),
          integer("qp_type"),
          integer("sq_sig_all"),
          gap(4));

  /** {@code ibv_qp_attr}. */
  public static final StructLayout QUEUE_PAIR =
      struct(
          "ibv_qp_attr",
          integer("qp_state"),
          gap(4),
          integer("path_mtu"),
          gap(8),
          integer("rq_psn"),
          integer("sq_psn"),
          integer("dest_qp_num"),
          integer("qp_access_flags"),
          gap(20),
          bytes("ah_attr.grh.dgid", 16),
          integer("ah_attr.grh.flow_label"),
          octet("ah_attr.grh.sgid_index"),
          octet("ah_attr.grh.hop_limit"),
          octet("ah_attr.grh.traffic_class"),
          gap(1),
          word("ah_attr.dlid"),
          octet("ah_attr.sl"),
          gap(2),
          octet("ah_attr.is_global"),
          octet("ah_attr.port_num"),
          gap(1),
          gap(32),
          word("pkey_index"),
          gap(4),
          octet("max_rd_atomic"),
          octet("max_dest_rd_atomic"),
          octet("min_rnr_timer"),
          octet("port_num"),
          octet("timeout"),
          octet("retry_cnt"),
          octet("rnr_retry"),
          gap(11));

  /** {@code ibv_port_attr}. */
  public static final StructLayout PORT =
      struct(
          "ibv_port_attr",
          integer("state"),
          gap(4),
          integer("active_mtu"),
          gap(8),
          integer("max_msg_sz"),
          gap(10),
          word("lid"),
          gap(10),
          octet("link_layer"),
          gap(5));

  /** {@code ibv_device_attr}. */
  public static final StructLayout DEVICE =
      struct(
          "ibv_device_attr",
          gap(80),
          number("max_mr_size"),
          gap(24),
          integer("max_qp_wr"),
          gap(16),
          integer("max_cqe"),
          gap(96));

  /** {@code ibv_context}, the used part: addresses of functions without a symbol. */
  public static final StructLayout CONTEXT =
      struct(
          "ibv_context",
          number("device"),
          gap(88),
          number("ops.poll_cq"),
          gap(104),
          number("ops.post_send"),
          number("ops.post_recv"),
          gap(104));

  /** {@code ibv_mr}: registered memory. */
  public static final StructLayout MEMORY =
      struct("ibv_mr", gap(36), integer("lkey"), integer("rkey"), gap(4));

  /** {@code ibv_qp}, the used part. */
  public static final StructLayout QUEUE_PAIR_OBJECT =
      struct("ibv_qp", gap(52), integer("qp_num"), gap(104));

  private VerbsLayouts() {}

  /** Byte offset of a member. */
  public static long offset(StructLayout layout, String member) {
    return layout.byteOffset(PathElement.groupElement(member));
  }

  private static StructLayout struct(String name, MemoryLayout... members) {
    return MemoryLayout.structLayout(members).withName(name);
  }

  private static ValueLayout.OfLong number(String name) {
    return ValueLayout.JAVA_LONG.withName(name);
  }

  private static ValueLayout.OfInt integer(String name) {
    return ValueLayout.JAVA_INT.withName(name);
  }

  private static ValueLayout.OfShort word(String name) {
    return ValueLayout.JAVA_SHORT.withName(name);
  }

  private static ValueLayout.OfByte octet(String name) {
    return ValueLayout.JAVA_BYTE.withName(name);
  }

  private static MemoryLayout bytes(String name, int count) {
    return MemoryLayout.sequenceLayout(count, ValueLayout.JAVA_BYTE).withName(name);
  }

  /** Unused members, and padding. */
  private static PaddingLayout gap(long bytes) {
    return MemoryLayout.paddingLayout(bytes);
  }
}
