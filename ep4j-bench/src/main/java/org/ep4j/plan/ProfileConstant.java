package org.ep4j.plan;

import java.util.Locale;

/**
 * The constants of a {@link MachineProfile}: name in its file, unit, and the values that make
 * sense. GB/s are gigabytes (10^9 bytes) a second of one GPU and one direction.
 */
public enum ProfileConstant {
  /** GPUs that reach one another over NVLink; ranks of one node at most. */
  RANKS_PER_NODE("ranks", 1, 4096),
  /** Streaming multiprocessors of a GPU. */
  SMS("SMs", 1, 1024),
  /** NVLink rate of rows that a dispatch pushes, without fixed costs. */
  NVLINK_DISPATCH_GBPS("GB/s", 1, 1e5),
  /** NVLink rate of rows that a combine moves and sums, without fixed costs. */
  NVLINK_COMBINE_GBPS("GB/s", 1, 1e5),
  /** Rate of one port of the NIC of a rank. */
  NIC_GBPS("GB/s", 0.01, 1e4),
  /** Ports of the NIC of a rank. */
  NIC_PORTS("ports", 1, 64),
  /** Messages that the NIC of a rank sends, in millions a second. */
  NIC_MMSGS("million messages/s", 0.01, 1e5),
  /** Time of a small message to another rank. */
  HOP_US("us", 0, 1e4),
  /** Rate of the GPU's memory. */
  MEMORY_GBPS("GB/s", 1, 1e6),
  /** What an SM spends on a row that it sends over NVLink, beside its bytes. */
  SM_ROW_US("us", 0, 1e3),
  /** Rate at which an SM dispatches the bytes of such rows. */
  SM_GBPS("GB/s", 0.1, 1e5),
  /** Rate at which an SM moves and sums the bytes of such rows in a combine. */
  SM_COMBINE_GBPS("GB/s", 0.1, 1e5),
  /** What an SM spends on a row that it hands to a node, beside its bytes. */
  SM_NODE_ROW_US("us", 0, 1e3),
  /** Rate at which an SM moves the bytes of such rows. */
  SM_NODE_GBPS("GB/s", 0.1, 1e5),
  /** Fixed time of a high-throughput kernel: its start, its counts, its end. */
  KERNEL_US("us", 0, 1e5),
  /** What each other rank of a node adds to a high-throughput kernel. */
  PEER_US("us", 0, 1e4),
  /** What a whole call takes beside its kernels. */
  CALL_US("us", 0, 1e5),
  /** What backend {@code nccl} adds to a high-throughput kernel between nodes. */
  NCCL_US("us", 0, 1e5),
  /** Fixed time of a low-latency operation over NVLink. */
  LL_NVLINK_US("us", 0, 1e5),
  /** What each other rank of a node adds to it. */
  LL_NVLINK_PEER_US("us", 0, 1e4),
  /** Fixed time of a low-latency operation over NICs. */
  LL_NIC_US("us", 0, 1e5),
  /** What each rank of other nodes adds to it. */
  LL_NIC_PEER_US("us", 0, 1e4);

  private final String unit;
  private final double least;
  private final double greatest;

  ProfileConstant(String unit, double least, double greatest) {
    this.unit = unit;
    this.least = least;
    this.greatest = greatest;
  }

  /** Name in the file of a profile, for example {@code nic_gbps}. */
  public String key() {
    return name().toLowerCase(Locale.ROOT);
  }

  /** Unit of the value. */
  public String unit() {
    return unit;
  }

  /** Whether it counts something: its value is a whole number. */
  public boolean counts() {
    return this == RANKS_PER_NODE || this == SMS || this == NIC_PORTS;
  }

  /** Whether the constant can have this value. */
  boolean allows(double value) {
    return value >= least && value <= greatest && (!counts() || value == Math.rint(value));
  }

  /** The allowed value next to {@code value}, of a constant that counts nothing. */
  MachineProfile.Sourced measured(double value, String source) {
    return new MachineProfile.Sourced(Math.clamp(value, least, greatest), source);
  }

  /** The allowed values as text. */
  String limit() {
    return String.format(Locale.ROOT, "%s to %s %s", number(least), number(greatest), unit);
  }

  private static String number(double value) {
    return value == Math.rint(value) ? Long.toString((long) value) : Double.toString(value);
  }
}
