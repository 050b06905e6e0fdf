package org.ep4j.c;

import java.lang.foreign.Arena;
import org.ep4j.ExpertBuffer;
import org.ep4j.c.struct.CombineRequest;
import org.ep4j.c.struct.DispatchRequest;
import org.ep4j.c.struct.LowLatencyCombineRequest;
import org.ep4j.c.struct.LowLatencyDispatchRequest;
import org.ep4j.c.struct.ObjectTable;
import org.ep4j.engine.ThreadGuard;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;

/**
 * What {@code ep4j_buffer} names: a buffer, the arguments of its last calls, and the results that
 * are valid. One thread at a time is inside, between {@link #enter} and {@link #leave}.
 */
final class BufferObject {
  private final ExpertBuffer buffer;
  private final long number;
  private final ThreadGuard guard = new ThreadGuard();
  private final Arena arena = Arena.ofShared();

  final DispatchRequest dispatchRequest = new DispatchRequest(arena);
  final CombineRequest combineRequest = new CombineRequest(arena);
  final LowLatencyDispatchRequest lowLatencyDispatchRequest = new LowLatencyDispatchRequest(arena);
  final LowLatencyCombineRequest lowLatencyCombineRequest = new LowLatencyCombineRequest(arena);

  /** The last dispatch and combine; of low latency the last two, used in turn. */
  final ResultSlot dispatched;

  final ResultSlot combined;
  private final ResultSlot[] lowLatencyDispatched;
  private final ResultSlot[] lowLatencyCombined;

  private int dispatches;
  private int combines;

  private BufferObject(ExpertBuffer buffer) {
    this.buffer = buffer;
    number = ObjectTable.PROCESS.add(this, ObjectTable.NO_OWNER);
    dispatched = new ResultSlot(this, number);
    combined = new ResultSlot(this, number);
    lowLatencyDispatched =
        new ResultSlot[] {new ResultSlot(this, number), new ResultSlot(this, number)};
    lowLatencyCombined =
        new ResultSlot[] {new ResultSlot(this, number), new ResultSlot(this, number)};
  }

  /** Takes over a buffer; returns its number. */
  static long add(ExpertBuffer buffer) {
    return new BufferObject(buffer).number;
  }

  /**
   * Enters the open buffer with a number: the calling thread is in it until {@link #leave}. Another
   * one inside is an error.
   */
  static BufferObject enter(long number) {
    BufferObject found = of(number);
    found.enter();
    return found;
  }

  /** The open buffer with a number. */
  static BufferObject of(long number) {
    return ObjectTable.PROCESS.get("buffer", number, BufferObject.class, "an open buffer");
  }

  ExpertBuffer buffer() {
    return buffer;
  }

  /** Admits the calling thread; another one inside is an error. */
  void enter() {
    guard.enter();
  }

  void leave() {
    guard.leave();
  }

  /** The place of the next low-latency dispatch that succeeds. */
  ResultSlot nextLowLatencyDispatch() {
    return lowLatencyDispatched[dispatches++ & 1];
  }

  /** The place of the next low-latency combine that succeeds. */
  ResultSlot nextLowLatencyCombine() {
    return lowLatencyCombined[combines++ & 1];
  }

  /** Gives the caller an event if the operation is asynchronous; otherwise 0. */
  long event(Execution execution, Event event) {
    return execution.isAsync() ? ObjectTable.PROCESS.add(event, number) : 0;
  }

  /** Gives the caller a handle. */
  long add(RoutesObject routes) {
    return ObjectTable.PROCESS.add(routes, number);
  }

  /** Closes the buffer, and the numbers of all that it gave out; closing twice is harmless. */
  void close() {
    guard.enterForClose();
    try {
      if (!guard.isShut()) {
        buffer.close();
        guard.shut();
        ObjectTable.PROCESS.remove(number);
        arena.close();
      }
    } finally {
      guard.leave();
    }
  }
}
