package org.ep4j.cuda.struct;

/**
 * {@code DevicePut}: memory and transport of puts, see {@code device_put.cuh}; kernels take it by
 * value.
 */
public final class PutParameters extends Struct {
  public final U64 rank = u64("rank");
  public final U64 ranks = u64("ranks");
  public final U64 lanes = u64("lanes");
  public final U64 signals = u64("signals");

  /** Memory of this rank. */
  public final Pointer own = pointer("char*", "own");

  /** [ranks] the memory of each rank; null: reached by the carrier. */
  public final Pointer peers = pointer("char* const*", "peers");

  /** Offset of the signal words in that memory. */
  public final U64 signalWords = u64("signal_words");

  /** Argument of the linked functions: their communicator. */
  public final U64 library = u64("library");

  /** Argument of the linked functions: their name of the memory. */
  public final U64 window = u64("window");

  /** Page-locked host memory that the wire reads. */
  public final Pointer outgoing = pointer("char*", "outgoing");

  /** Page-locked host memory that the wire writes. */
  public final Pointer incoming = pointer("const char*", "incoming");

  /** [signals] wire counters. */
  public final Pointer counters = pointer("const u64*", "counters");

  /** [lanes] flushes so far, in device memory. Writer: the warp that has the lane. */
  public final Pointer flushes = pointer("u64*", "flushes");

  /** Lanes of the wire. */
  public final U64 lanesPerRing = u64("lanes_per_ring");

  public final CommandRings rings = nested(new CommandRings(), "rings");

  public PutParameters() {
    super("DevicePut");
  }
}
