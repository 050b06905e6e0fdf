package org.ep4j.rdma.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** Where the queue pairs of one strand on one port report; owned by the wire. */
final class CompletionQueue implements AutoCloseable {
  /** Completions that are taken at once. */
  static final int MAX = 32;

  private static final long BYTES = VerbsLayouts.COMPLETION.byteSize();
  private static final long ID = VerbsLayouts.offset(VerbsLayouts.COMPLETION, "wr_id");
  private static final long STATUS = VerbsLayouts.offset(VerbsLayouts.COMPLETION, "status");
  private static final long OPCODE = VerbsLayouts.offset(VerbsLayouts.COMPLETION, "opcode");
  private static final long IMMEDIATE = VerbsLayouts.offset(VerbsLayouts.COMPLETION, "imm_data");

  private final MemorySegment function;
  private final MemorySegment completions;
  private final long address;
  private long queue;

  CompletionQueue(OpenPort port, int entries, Arena arena) {
    function = port.pollFunction;
    completions = arena.allocate(MAX * BYTES, Long.BYTES);
    address = completions.address();
    queue = port.createCompletionQueue(entries);
  }

  long handle() {
    return queue;
  }

  /** Takes up to {@link #MAX} completions off the queue. */
  int poll() {
    return VerbsQueues.poll(function, queue, MAX, address);
  }

  /** What the request was numbered. */
  long id(int completion) {
    return completions.get(ValueLayout.JAVA_LONG, completion * BYTES + ID);
  }

  int status(int completion) {
    return completions.get(ValueLayout.JAVA_INT, completion * BYTES + STATUS);
  }

  int opcode(int completion) {
    return completions.get(ValueLayout.JAVA_INT, completion * BYTES + OPCODE);
  }

  /** Immediate data as the sender has given it. */
  int immediate(int completion) {
    return completions.get(ValueLayout.JAVA_INT, completion * BYTES + IMMEDIATE);
  }

  @Override
  public void close() {
    if (queue != 0) {
      Verbs.destroyCompletionQueue(queue);
      queue = 0;
    }
  }
}
