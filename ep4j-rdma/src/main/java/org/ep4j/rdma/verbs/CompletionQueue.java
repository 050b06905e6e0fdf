package org.ep4j.rdma.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.rdma.verbs.bindings.Verbs;
import org.ep4j.rdma.verbs.bindings.VerbsLayouts;
import org.ep4j.rdma.verbs.bindings.VerbsQueues;

/** Completion queue of the queue pairs of one progress context on one port; owned by the wire. */
final class CompletionQueue implements AutoCloseable {
  /** Maximum number of completions per poll. */
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

  /** Polls up to {@link #MAX} completions. */
  int poll() {
    return VerbsQueues.poll(function, queue, MAX, address);
  }

  /** Number of the request. */
  long id(int completion) {
    return completions.get(ValueLayout.JAVA_LONG, completion * BYTES + ID);
  }

  int status(int completion) {
    return completions.get(ValueLayout.JAVA_INT, completion * BYTES + STATUS);
  }

  int opcode(int completion) {
    return completions.get(ValueLayout.JAVA_INT, completion * BYTES + OPCODE);
  }

  /** Immediate data of the sender. */
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
