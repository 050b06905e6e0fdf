package org.ep4j.cuda.struct;

/** The carrier between nodes, see {@code internode_transport.cuh}. */
public final class InternodeTransport extends Struct {
  /** Counters of this rank. */
  public final Pointer counters = pointer("const u64*", "counters");

  /** Argument of the library's functions: its communicator. */
  public final U64 library = u64("library");

  /** Argument of the library's functions: its name of the memory. */
  public final U64 window = u64("window");

  /** Offset of the library's signal words in the window: the counters. */
  public final U64 words = u64("words");

  /** Rings of the proxy; library: only their number is set. */
  public final CommandRings rings = nested(new CommandRings(), "rings");

  public InternodeTransport() {
    super("InternodeTransport");
  }
}
