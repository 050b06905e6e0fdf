package org.ep4j.cuda.struct;

/** Parameters of {@code transport/library_quiesce.cu}. */
public final class QuiesceParameters extends Struct {
  public final U64 rank = u64("rank");
  public final U64 ranks = u64("ranks");

  /** First rank of this node. */
  public final U64 nodeFirst = u64("node_first");

  /** End of the ranks of this node. */
  public final U64 nodeEnd = u64("node_end");

  /** Number of the counter of rank 0. */
  public final U64 firstWord = u64("first_word");

  /** Amount of a final signal. */
  public final U64 increment = u64("increment");

  /** Value that each counter must reach. */
  public final U64 wanted = u64("wanted");

  /** In nanoseconds. */
  public final U64 timeout = u64("timeout");

  /** 1 + a rank whose final signals are late; else unchanged. */
  public final Pointer missing = pointer("u64*", "missing");

  public QuiesceParameters() {
    super("QuiesceParameters");
  }
}
