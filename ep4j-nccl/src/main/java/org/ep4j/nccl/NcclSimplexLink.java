package org.ep4j.nccl;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/**
 * One direction from one rank to another: a communicator of the two with the sender as rank 0, and
 * a separate stream, so that no direction waits for another direction or peer. The communicator is
 * nonblocking: a call starts work, and the communicator reports when the stream has it. One call at
 * a time is being submitted to the stream; submitted batches end in order. Used by one thread at a
 * time.
 */
final class NcclSimplexLink {
  private static final Duration PARTING = Duration.ofSeconds(5);
  private static final long LOOK_NANOS = 200_000;
  private static final int SENDER = 0;
  private static final int RECEIVER = 1;

  private final ResourceStack owned = new ResourceStack();
  private final CudaDevice device;
  private final boolean sends;

  /** Memory that NCCL may still write after a call has returned. */
  private final Arena arena = owned.own(Arena.ofShared());

  private final MemorySegment handle = arena.allocate(ValueLayout.JAVA_LONG);
  private final MemorySegment state = arena.allocate(ValueLayout.JAVA_INT);

  /**
   * Urgent: the transfers that other ranks wait for are short, and kernels of the engine must not
   * delay them.
   */
  private final CudaStream stream;

  private final Cores cores = new Cores(arena);

  /** The end of each submitted batch, by its number. */
  private final CudaEvent[] ends;

  /** Whether the last batch is not yet submitted to the stream. */
  private boolean posting;

  private long posted;
  private long done;

  /** Calls into NCCL; stopped when no more calls are allowed. */
  private final Calls calls = new Calls();

  /** Whether the device no longer uses the memory; null before the end. */
  private @Nullable Boolean free;

  /**
   * A link without communicator.
   *
   * @param batches largest number of batches in flight
   */
  NcclSimplexLink(CudaDevice device, boolean sends, int batches) {
    this.device = device;
    this.sends = sends;
    ends = new CudaEvent[batches];
    boolean complete = false;
    try {
      stream = owned.own(CudaStream.createUrgent(device));
      for (int i = 0; i < batches; i++) {
        ends[i] = owned.own(CudaEvent.create(device));
      }
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /**
   * Starts to create the communicator, on both ranks.
   *
   * @param id id of the communicator
   */
  void begin(byte[] id) {
    if (!calls.begin()) {
      throw new NcclException(
          ErrorCode.NCCL_CALL_FAILED, "this process is exiting and creates no communicator");
    }
    int result;
    try {
      result = NcclCommunicator.begin(arena, handle, 2, id, sends ? SENDER : RECEIVER);
    } finally {
      calls.end();
    }
    if (result != NcclLayouts.SUCCESS && result != NcclLayouts.IN_PROGRESS) {
      throw NcclException.of(result, NcclFunction.COMM_INIT, 0);
    }
  }

  private long comm() {
    return handle.get(ValueLayout.JAVA_LONG, 0);
  }

  /** Whether the last call has completed; throws if it failed. */
  boolean idle() {
    return settled(NcclFunction.COMM_INIT);
  }

  private boolean settled(NcclFunction function) {
    if (!calls.begin()) {
      return false;
    }
    try {
      int asked = NcclCalls.asyncError(comm(), state.address());
      int now = asked == NcclLayouts.SUCCESS ? state.get(ValueLayout.JAVA_INT, 0) : asked;
      if (now == NcclLayouts.IN_PROGRESS) {
        return false;
      }
      NcclException.check(now, function, comm());
      return true;
    } finally {
      calls.end();
    }
  }

  /**
   * Starts a send or receive; makes the device current.
   *
   * @return false if too many batches are in flight: try again
   */
  boolean post(long address, int bytes) {
    look();
    if (posting || posted - done == ends.length || !calls.begin()) {
      return false;
    }
    try {
      device.makeCurrent();
      int result = call(address, bytes);
      if (result != NcclLayouts.IN_PROGRESS) {
        NcclException.check(result, sends ? NcclFunction.SEND : NcclFunction.RECEIVE, comm());
      }
    } finally {
      calls.end();
    }
    posting = true;
    posted++;
    look();
    return true;
  }

  private int call(long address, int bytes) {
    cores.widen();
    try {
      return sends
          ? NcclCalls.send(address, bytes, NcclLayouts.BYTE, RECEIVER, comm(), stream.handle())
          : NcclCalls.receive(address, bytes, NcclLayouts.BYTE, SENDER, comm(), stream.handle());
    } finally {
      cores.restore();
    }
  }

  /** Number of completed batches; throws once the communicator has failed, though all are. */
  long done() {
    look();
    return done;
  }

  /** Asks also behind the last batch: NCCL may still be sending what the stream has ended. */
  private void look() {
    if (!settled(sends ? NcclFunction.SEND : NcclFunction.RECEIVE)) {
      return;
    }
    if (posting) {
      posting = false;
      ends[(int) ((posted - 1) % ends.length)].record(stream);
    }
    while (done < posted && ends[(int) (done % ends.length)].query()) {
      done++;
    }
  }

  /** Forbids further calls and queries; later queries report pending work. */
  void stop() {
    calls.stop();
  }

  /** Whether a call into NCCL may be running; once false after {@link #stop}, it stays false. */
  boolean calling() {
    return calls.inside();
  }

  /**
   * Frees the link once, independent of the other rank; takes a while, and waits for all other work
   * of NCCL on the device.
   *
   * @return whether the device no longer uses the memory
   */
  synchronized boolean close() {
    if (free == null) {
      stop();
      // If freeing fails, it is not repeated, and memory that NCCL may use stays allocated.
      free = false;
      free = end();
    }
    return free;
  }

  private boolean end() {
    device.makeCurrent();
    if (comm() != 0) {
      int ignored = NcclCalls.abort(comm());
    }
    if (!ends()) {
      return false;
    }
    owned.close();
    return true;
  }

  private boolean ends() {
    long deadline = System.nanoTime() + PARTING.toNanos();
    try {
      while (!stream.query()) {
        if (System.nanoTime() - deadline > 0) {
          return false;
        }
        LockSupport.parkNanos(LOOK_NANOS);
      }
      return true;
    } catch (Ep4jException e) {
      return false;
    }
  }
}
