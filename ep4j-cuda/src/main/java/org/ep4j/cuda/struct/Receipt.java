package org.ep4j.cuda.struct;

/**
 * How the host learns of the end of an operation: once the kernel has ended, successfully or not,
 * {@code completed} holds at least the ticket.
 */
public final class Receipt extends Struct {
  /** 0 requests no notification. */
  public final U64 ticket = u64("ticket");

  /** A word in mapped host memory. Writer: one thread of the last block, release. */
  public final Pointer completed = pointer("u64*", "completed");

  public Receipt() {
    super("Receipt");
  }
}
