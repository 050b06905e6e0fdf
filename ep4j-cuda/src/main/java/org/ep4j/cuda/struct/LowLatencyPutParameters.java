package org.ep4j.cuda.struct;

/**
 * {@code LowLatencyPuts}: how low-latency kernels put words and rows to other nodes ({@code
 * lowlatency/low_latency_puts.cuh}). In device memory, constant except for {@code base}.
 */
public final class LowLatencyPutParameters extends Struct {
  public final Pointer world = pointer("const struct InternodeWorld*", "world");

  /** Outgoing memory. */
  public final Pointer staging = pointer("char*", "staging");

  /** Offset of {@code staging} in the region of outgoing memory. */
  public final U64 stagingSource = u64("staging_source");

  /** Bytes of the half of a shadow. */
  public final U64 halfBytes = u64("half_bytes");

  /** Offset of the rows in a half. */
  public final U64 rowsOffset = u64("rows_offset");

  /** Offset of internode parts in the landing memory of all ranks. */
  public final U64 target = u64("target");

  /** [ranks, COUNTERS_PER_RANK] counters of this rank. */
  public final Pointer counters = pointer("const u64*", "counters");

  /** [ranks, COUNTERS_PER_RANK] values of the counters at operation 0. */
  public final Pointer base = pointer("const u64*", "base");

  /** Number of the first counter. */
  public final U64 firstCounter = u64("first_counter");

  public LowLatencyPutParameters() {
    super("LowLatencyPuts");
  }
}
