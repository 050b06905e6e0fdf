package org.ep4j.cuda.engine.lowlatency;

import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.context.OperationEnd;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.struct.LowLatencyParameters;
import org.ep4j.engine.Operation;
import org.ep4j.engine.lowlatency.Flight;
import org.ep4j.engine.lowlatency.Flights;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Event;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** One low-latency operation: its kernel, its parameters, and the end of its work. */
abstract class LowLatencyOperation implements Flight.Work {
  /** Its state. */
  final Flight flight;

  private final LowLatency owner;
  private final String operation;

  /** Number in the call log; 0 if not logged. */
  long call;

  /** Tokens of this rank. */
  int tokens;

  /** The caller's stream, or null. */
  @Nullable DeviceStream callers;

  @Nullable Tensor waitStats;

  /** The end of the enqueued half. */
  private final OperationEnd end;

  LowLatencyOperation(LowLatency owner, Flights.Kind kind) {
    this.owner = owner;
    operation = kind.toString();
    flight = new Flight(owner.flights(), kind, this);
    end = new OperationEnd(owner.completion());
  }

  /** The kernel of the operation. */
  abstract KernelCall<LowLatencyParameters> call();

  /** Shared memory of a block. */
  abstract int sharedBytes();

  /** Sets the parameters of the sending half. */
  abstract void prepareSend(LowLatencyParameters p);

  /** Sets the parameters of the receiving half. */
  abstract void prepareReceive(LowLatencyParameters p, CudaStream stream);

  /** Counts the operation, which is completely enqueued. */
  abstract void count();

  /** Describes what must be equal on all ranks. */
  abstract void describe(Operation description);

  /** Whether results must be copied to the host at the end. */
  abstract boolean endsOnHost();

  /** Copies results to the host; the operation has ended. */
  abstract void toHost();

  /** Prepares the started operation. */
  final void begin(@Nullable DeviceStream stream, @Nullable Tensor stats) {
    callers = stream;
    waitStats = stats;
    end.none();
  }

  /** Work has been enqueued. */
  final void enqueued(long ticket) {
    end.enqueued(operation, flight.number(), ticket, callers != null, null);
  }

  @Override
  public final void receive() {
    owner.receive(this);
  }

  @Override
  public final void awaitSent() {
    // The thread in the buffer has enqueued it.
  }

  /** Results are in the order of the caller's stream if there is one. */
  @Override
  public final void awaitResults() {
    settle();
  }

  /** Waits for the enqueued work, unless it runs on the caller's stream. */
  final void settle() {
    end.await();
  }

  /** Waits for the enqueued work. */
  final void awaitEnd() {
    end.awaitHere();
  }

  /** The end of the enqueued work. */
  public final Event event() {
    return end.event();
  }
}
