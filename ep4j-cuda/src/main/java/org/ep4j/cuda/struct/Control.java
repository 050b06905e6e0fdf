package org.ep4j.cuda.struct;

/**
 * Words at the start of each rank's region, see {@code common/protocol.cuh}.
 *
 * <p>Writers: while a kernel runs, only kernels of this GPU, except for {@code fenced_by}. While
 * none runs, the host clears the fields up to {@code operations} and reads the traffic fields.
 * Waiter: only {@code running} has one. Behind these words are those of {@code
 * common/observation.cuh}.
 */
public final class Control extends Struct {
  /** For offsets; placed nowhere. */
  public static final Control WORDS = new Control();

  /** Of the last operation that ended: last block, release; acquire at the start. */
  public final U64 epoch = u64("epoch");

  /** Blocks of the running kernel that have finished: atomic, cleared by the last block. */
  public final U64 arrived = u64("arrived");

  /** Epoch of the operation that aborted: any thread, release; polled with acquire. */
  public final U64 abort = u64("abort");

  /** Epoch whose bad routing is in the record: atomic exchange. */
  public final U64 claimed = u64("claimed");

  /** 1 once a wait has failed: later kernels leave at once, until the host resets it. */
  public final U64 failed = u64("failed");

  /** Highest ticket of an operation that ended: last block only. */
  public final U64 ticket = u64("ticket");

  /** Operations since the buffer was opened or reset: last block only. */
  public final U64 operations = u64("operations");

  /** FLAT rows of all dispatches, own rows included: last block only. */
  public final U64 rowsSent = u64("rows_sent");

  /** FLAT rows received: last block only. */
  public final U64 rowsReceived = u64("rows_received");

  /** Bytes of rows and scales sent: last block only. */
  public final U64 payloadBytes = u64("payload_bytes");

  // Atomic, cleared by the last block.

  /**
   * FLAT: blocks whose tokens may be sent; EXPERT_MAJOR: blocks that have read the counts and sent;
   * combine: groups that pushing warps have taken.
   */
  public final U64 senders = u64("senders");

  /** Work taken: tokens (sending warps), rows (receiving warps), parts (summing warps). */
  public final U64 jobs = u64("jobs");

  /**
   * 1 while a kernel may write into peers' memory. Writers: the first thread of each block before
   * it reads {@code fenced_by}; 0: the last block; relaxed. Waiter: hosts of peers.
   */
  public final U64 running = u64("running");

  /**
   * 0, or 1 + the number of a rank that continues without this one. Writers: hosts of such ranks;
   * polled relaxed; never cleared.
   */
  public final U64 fencedBy = u64("fenced_by");

  /** Windows of operations in mapped host memory; null: none. Writer: the host, before kernels. */
  public final Pointer windows = pointer("struct ObservedWindows*", "windows");

  /** Words behind these: ranks, then local experts. Writer: the host, before kernels. */
  public final U64 observedWords = u64("observed_words");

  public Control() {
    super("Control");
  }
}
