package org.ep4j.cuda.struct;

/** One run of {@code probe/put_probe.cu}. */
public final class PutRun extends Struct {
  public final U64 partner = u64("partner");

  /** Bytes of one put, a multiple of 16. */
  public final U64 bytes = u64("bytes");

  public final U64 rounds = u64("rounds");

  /** In nanoseconds. */
  public final U64 timeout = u64("timeout");

  /** [lanes] one result each. */
  public final Pointer results = pointer("u64*", "results");

  /** [signals] values before this run, in device memory. */
  public final Pointer past = pointer("u64*", "past");

  public PutRun() {
    super("PutRun");
  }
}
