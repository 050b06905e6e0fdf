package org.ep4j.rdma.verbs;

import static org.ep4j.rdma.verbs.bindings.VerbsConstants.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import org.ep4j.rdma.verbs.bindings.Verbs;
import org.ep4j.rdma.verbs.bindings.VerbsControlLayout;
import org.ep4j.rdma.verbs.bindings.VerbsLayouts;
import org.ep4j.rdma.verbs.ports.RdmaSettings;

/** The state transitions of a queue pair: from reset to connected, and to error. */
final class PairStates {
  /** Hop limit: enough for any network, and ends routing loops. */
  private static final byte HOPS = 64;

  /** 0.64 ms, for a receiver that is not ready. */
  private static final byte RECEIVER_NOT_READY_TIMER = 12;

  /**
   * A receiver is always ready, see {@link VerbsControlLayout}. If not, this is a defect that must
   * be visible, hence few retries.
   */
  private static final byte RECEIVER_NOT_READY_RETRIES = 3;

  private PairStates() {}

  /** Initialises a queue pair, so that receives can be posted. */
  static void initialise(long pair, int port) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment attributes = arena.allocate(VerbsLayouts.QUEUE_PAIR);
      put(attributes, "qp_state", IBV_QPS_INIT);
      put(attributes, "port_num", (byte) port);
      put(attributes, "qp_access_flags", IBV_ACCESS_REMOTE_WRITE);
      int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
      Verbs.modify(pair, attributes, mask, "INIT");
    }
  }

  /** Connects a queue pair to its other end, which must at least be initialised. */
  static void connect(
      long pair, OpenPort port, PortAddress peersPort, PairAddress peer, RdmaSettings settings) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment attributes = arena.allocate(VerbsLayouts.QUEUE_PAIR);
      put(attributes, "qp_state", IBV_QPS_RTR);
      put(attributes, "path_mtu", Math.min(port.address().mtu(), peersPort.mtu()));
      put(attributes, "dest_qp_num", peer.number());
      put(attributes, "rq_psn", peer.firstPacket());
      put(attributes, "min_rnr_timer", RECEIVER_NOT_READY_TIMER);
      put(attributes, "ah_attr.port_num", (byte) port.number());
      put(attributes, "ah_attr.sl", (byte) settings.serviceLevel());
      if (peersPort.ethernet() || settings.gidIndex() >= 0) {
        put(attributes, "ah_attr.is_global", (byte) 1);
        put(attributes, "ah_attr.grh.hop_limit", HOPS);
        put(attributes, "ah_attr.grh.sgid_index", (byte) port.address().gidIndex());
        put(attributes, "ah_attr.grh.traffic_class", (byte) settings.trafficClass());
        long gid = VerbsLayouts.offset(VerbsLayouts.QUEUE_PAIR, "ah_attr.grh.dgid");
        attributes.set(ValueLayout.JAVA_LONG, gid, peersPort.gidHigh());
        attributes.set(ValueLayout.JAVA_LONG, gid + Long.BYTES, peersPort.gidLow());
      }
      attributes.set(
          ValueLayout.JAVA_SHORT,
          VerbsLayouts.offset(VerbsLayouts.QUEUE_PAIR, "ah_attr.dlid"),
          peersPort.lid());
      int mask =
          IBV_QP_STATE
              | IBV_QP_AV
              | IBV_QP_PATH_MTU
              | IBV_QP_DEST_QPN
              | IBV_QP_RQ_PSN
              | IBV_QP_MAX_DEST_RD_ATOMIC
              | IBV_QP_MIN_RNR_TIMER;
      Verbs.modify(pair, attributes, mask, "RTR");
    }
  }

  /** Enables sending. */
  static void letSend(long pair, int firstPacket, RdmaSettings settings) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment attributes = arena.allocate(VerbsLayouts.QUEUE_PAIR);
      put(attributes, "qp_state", IBV_QPS_RTS);
      put(attributes, "sq_psn", firstPacket);
      put(attributes, "timeout", (byte) settings.timeout());
      put(attributes, "retry_cnt", (byte) settings.retries());
      put(attributes, "rnr_retry", RECEIVER_NOT_READY_RETRIES);
      int mask =
          IBV_QP_STATE
              | IBV_QP_TIMEOUT
              | IBV_QP_RETRY_CNT
              | IBV_QP_RNR_RETRY
              | IBV_QP_SQ_PSN
              | IBV_QP_MAX_QP_RD_ATOMIC;
      Verbs.modify(pair, attributes, mask, "RTS");
    }
  }

  /** Stops a queue pair: every pending request completes with an error. */
  static void fail(long pair) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment attributes = arena.allocate(VerbsLayouts.QUEUE_PAIR);
      put(attributes, "qp_state", IBV_QPS_ERR);
      Verbs.modify(pair, attributes, IBV_QP_STATE, "ERR");
    }
  }

  private static void put(MemorySegment attributes, String member, int value) {
    StructLayout layout = VerbsLayouts.QUEUE_PAIR;
    attributes.set(ValueLayout.JAVA_INT, VerbsLayouts.offset(layout, member), value);
  }

  private static void put(MemorySegment attributes, String member, byte value) {
    StructLayout layout = VerbsLayouts.QUEUE_PAIR;
    attributes.set(ValueLayout.JAVA_BYTE, VerbsLayouts.offset(layout, member), value);
  }
}
