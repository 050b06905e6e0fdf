package org.ep4j.cuda.struct;

/** The rings of commands to the proxy, see {@code command_ring.cuh}; kernels take it by value. */
public final class CommandRings extends Struct {
  /** Mapped host memory, [rings, capacity, 2]. */
  public final Pointer commands = pointer("u64*", "commands");

  /** Mapped host memory, [rings, TAIL_WORDS]. */
  public final Pointer tails = pointer("const u64*", "tails");

  /** Device memory, [rings]. */
  public final Pointer control = pointer("struct RingControl*", "control");

  /** Mapped host memory, [rings]. */
  public final Pointer records = pointer("struct RingRecord*", "records");

  /** Mapped host memory, [ranks]. */
  public final Pointer failures = pointer("const u64*", "failures");

  /** Mapped host memory, [flush counters]. */
  public final Pointer flushCounters = pointer("const u64*", "flush_counters");

  /** Number of rings. */
  public final U64 rings = u64("rings");

  /** Commands of a ring: a power of two, at least 64. */
  public final U64 capacity = u64("capacity");

  public CommandRings() {
    super("CommandRings");
  }
}
