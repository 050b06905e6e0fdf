package org.ep4j.nccl;

import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.BoundedCall;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.jspecify.annotations.Nullable;

/**
 * A nonblocking communicator of the ranks of a world. NCCL communicates with other ranks in the
 * background while this class polls, so that the death of a rank is detected and every call has a
 * deadline.
 */
final class NcclCommunicator implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger("org.ep4j.nccl");
  private static final Duration PARTING = Duration.ofSeconds(5);
  private static final long POLL_NANOS = 200_000;

  private final BackendWorld world;

  /** Memory that NCCL may still write after a call has returned. */
  private final Arena arena;

  private final MemorySegment handle;

  /** Whether a call has failed. */
  private boolean broken;

  private boolean closed;

  /**
   * The thread that frees the communicator; null before the end has begun, or if none is needed.
   */
  private @Nullable Thread end;

  /** Until when {@link #endClose} waits for it. */
  private long endDeadline;

  private NcclCommunicator(BackendWorld world) {
    this.world = world;
    arena = Arena.ofShared();
    handle = arena.allocate(ValueLayout.JAVA_LONG);
  }

  /** Creates the communicator; collective. */
  static NcclCommunicator open(BackendWorld world, byte[] id) {
    if (id.length != NcclLayouts.UNIQUE_ID_BYTES) {
      throw new NcclException(
          ErrorCode.NCCL_UNIQUE_ID,
          "the unique id of rank 0 has "
              + id.length
              + " bytes, not "
              + NcclLayouts.UNIQUE_ID_BYTES
              + ": use the same backend on all ranks");
    }
    NcclCommunicator made = new NcclCommunicator(world);
    boolean complete = false;
    try {
      made.init(id);
      complete = true;
      return made;
    } finally {
      if (!complete) {
        made.broken = true;
        made.close();
      }
    }
  }

  private void init(byte[] id) {
    int result =
        begin(arena, handle, world.participants().ranks(), id, world.participants().rank());
    await(result, NcclFunction.COMM_INIT, world.setUpTimeout());
  }

  /**
   * Starts to create a nonblocking communicator.
   *
   * @param arena lives as long as the communicator
   * @param handle receives the communicator
   */
  static int begin(Arena arena, MemorySegment handle, int ranks, byte[] id, int rank) {
    MemorySegment config = arena.allocate(NcclLayouts.CONFIG);
    config.set(ValueLayout.JAVA_LONG, field("size"), NcclLayouts.CONFIG.byteSize());
    config.set(ValueLayout.JAVA_INT, field("magic"), NcclLayouts.CONFIG_MAGIC);
    config.set(ValueLayout.JAVA_INT, field("version"), NcclLayouts.CONFIG_VERSION);
    config.set(ValueLayout.JAVA_INT, field("blocking"), 0);
    MemorySegment copy = arena.allocate(NcclLayouts.UNIQUE_ID);
    copy.copyFrom(MemorySegment.ofArray(id));
    return NcclCalls.commInit(handle.address(), ranks, copy, rank, config.address());
  }

  private static long field(String name) {
    return NcclLayouts.offset(NcclLayouts.CONFIG, name);
  }

  /** The ncclComm_t. */
  long handle() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the communicator is closed: create a new one");
    }
    return handle.get(ValueLayout.JAVA_LONG, 0);
  }

  /** Registers memory of all ranks as a symmetric window; collective. Returns 0 if NCCL cannot. */
  long register(long address, long bytes) {
    // No flags: no multicast, no symmetric kernels of NCCL.
    MemorySegment window = arena.allocate(ValueLayout.JAVA_LONG);
    int result = NcclCalls.register(handle(), address, bytes, window.address(), 0);
    await(result, NcclFunction.WINDOW_REGISTER, world.setUpTimeout());
    return window.get(ValueLayout.JAVA_LONG, 0);
  }

  /**
   * Creates a device communicator; collective.
   *
   * @param requirements requirements in the layout of the library's version
   * @param bytes bytes of an ncclDevComm of that version
   * @return the ncclDevComm, valid while this communicator is open
   */
  MemorySegment deviceCommunicator(MemorySegment requirements, long bytes) {
    MemorySegment made = arena.allocate(bytes, Long.BYTES);
    MemorySegment wanted = arena.allocate(requirements.byteSize(), Long.BYTES);
    wanted.copyFrom(requirements);
    int result = NcclCalls.deviceCommCreate(handle(), wanted.address(), made.address());
    try {
      await(result, NcclFunction.DEVICE_COMM_CREATE, world.setUpTimeout());
    } catch (NcclException e) {
      throw new NcclException(
          ErrorCode.NCCL_GIN_UNAVAILABLE,
          "GIN needs InfiniBand or RoCE ports with GPUDirect on all nodes (NCCL_DEBUG=INFO lists"
              + " the ports that NCCL found): "
              + e.getMessage());
    }
    return made;
  }

  /** Frees the result of {@link #deviceCommunicator}. */
  void freeDeviceCommunicator(MemorySegment made) {
    int ignored = NcclCalls.deviceCommDestroy(handle(), made.address());
  }

  /** Enqueues an all-reduce of floats in place. */
  void allReduce(long address, long floats, long stream) {
    int result =
        NcclCalls.allReduce(
            address, address, floats, NcclLayouts.FLOAT, NcclLayouts.SUM, handle(), stream);
    await(result, NcclFunction.ALL_REDUCE, world.setUpTimeout());
  }

  /**
   * Enqueues sends of {@code bytes} to some ranks and receives from some ranks; the buffers are
   * {@code stride} apart.
   */
  void exchange(
      long from,
      long to,
      long stride,
      long bytes,
      List<Integer> targets,
      List<Integer> sources,
      long stream) {
    NcclException.check(NcclCalls.groupStart(), NcclFunction.GROUP_START, handle());
    int failed = NcclLayouts.SUCCESS;
    for (int i = 0; i < targets.size(); i++) {
      int result =
          NcclCalls.send(
              from + i * stride, bytes, NcclLayouts.BYTE, targets.get(i), handle(), stream);
      failed = worse(failed, result);
    }
    for (int i = 0; i < sources.size(); i++) {
      int result =
          NcclCalls.receive(
              to + i * stride, bytes, NcclLayouts.BYTE, sources.get(i), handle(), stream);
      failed = worse(failed, result);
    }
    int ended = NcclCalls.groupEnd();
    NcclException.check(failed, NcclFunction.SEND, handle());
    await(ended, NcclFunction.GROUP_END, world.setUpTimeout());
  }

  private static int worse(int known, int result) {
    return known != NcclLayouts.SUCCESS || result == NcclLayouts.IN_PROGRESS ? known : result;
  }

  /**
   * Waits until NCCL has completed a call. Calls with background work may return success or in
   * progress: only the communicator reports completion.
   *
   * @throws NcclException if the call fails; the communicator is then unusable
   */
  private void await(int result, NcclFunction function, Duration limit) {
    long deadline = System.nanoTime() + limit.toNanos();
    try (Arena own = Arena.ofConfined()) {
      MemorySegment state = own.allocate(ValueLayout.JAVA_INT);
      int now = result == NcclLayouts.SUCCESS ? NcclLayouts.IN_PROGRESS : result;
      while (now == NcclLayouts.IN_PROGRESS) {
        checkAlive(function);
        if (handle() == 0) {
          throw new NcclException(
              ErrorCode.NCCL_CALL_FAILED, function.symbol() + " has created no communicator");
        }
        if (Thread.currentThread().isInterrupted()) {
          broken = true;
          throw new NcclException(
              ErrorCode.GROUP_INTERRUPTED,
              "the thread was interrupted while " + function.symbol() + " waited for other ranks");
        }
        if (System.nanoTime() - deadline > 0) {
          broken = true;
          throw new NcclException(
              ErrorCode.NCCL_TIMEOUT,
              "%s has not ended within %d s: check the firewall, set NCCL_SOCKET_IFNAME to the interface between the hosts, and set NCCL_DEBUG=INFO for details"
                  .formatted(function.symbol(), limit.toSeconds()));
        }
        int asked = NcclCalls.asyncError(handle(), state.address());
        now = asked == NcclLayouts.SUCCESS ? state.get(ValueLayout.JAVA_INT, 0) : asked;
        if (now == NcclLayouts.IN_PROGRESS) {
          LockSupport.parkNanos(POLL_NANOS);
        }
      }
      if (now != NcclLayouts.SUCCESS) {
        broken = true;
        throw NcclException.of(now, function, handle());
      }
    }
  }

  private void checkAlive(NcclFunction function) {
    String lost = BoundedCall.lost(world.participants(), function.symbol());
    if (!lost.isEmpty()) {
      broken = true;
      throw new NcclException(ErrorCode.NCCL_RANK_LOST, lost);
    }
  }

  /** Aborts the communicator when it closes, which needs no other rank. */
  void abandon() {
    broken = true;
  }

  /**
   * Frees the communicator, together with the other ranks if all are alive. After the loss of a
   * rank the communicator is aborted, which needs no other rank; a separate thread does this,
   * because its duration is unbounded.
   */
  @Override
  public void close() {
    beginClose();
    endClose();
  }

  /** The first half of {@link #close}, so that several communicators end at once. */
  void beginClose() {
    if (closed) {
      return;
    }
    long comm = handle();
    closed = true;
    if (comm == 0) {
      arena.close();
      return;
    }
    endDeadline = System.nanoTime() + PARTING.toNanos();
    end = Thread.ofPlatform().daemon().name("ep4j-nccl-end").start(() -> end(comm));
  }

  /** The second half of {@link #close}. */
  void endClose() {
    Thread ending = end;
    end = null;
    if (ending == null) {
      return;
    }
    boolean ended = false;
    try {
      ended = ending.join(Duration.ofNanos(Math.max(1, endDeadline - System.nanoTime())));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    if (ended) {
      arena.close();
    } else {
      LOG.log(
          Level.WARNING,
          "NCCL has not freed its communicator within {0} s; freeing continues in the background",
          PARTING.toSeconds());
    }
  }

  private void end(long comm) {
    world.device().makeCurrent();
    try (Arena own = Arena.ofConfined()) {
      boolean orderly = !broken;
      if (orderly) {
        MemorySegment state = own.allocate(ValueLayout.JAVA_INT);
        long deadline = System.nanoTime() + PARTING.toNanos() / 2;
        int now = NcclCalls.finish(comm);
        while (now == NcclLayouts.IN_PROGRESS && System.nanoTime() - deadline < 0) {
          LockSupport.parkNanos(POLL_NANOS);
          int asked = NcclCalls.asyncError(comm, state.address());
          now = asked == NcclLayouts.SUCCESS ? state.get(ValueLayout.JAVA_INT, 0) : asked;
        }
        orderly = now == NcclLayouts.SUCCESS;
      }
      int result = orderly ? NcclCalls.destroy(comm) : NcclCalls.abort(comm);
      if (result != NcclLayouts.SUCCESS && result != NcclLayouts.IN_PROGRESS) {
        LOG.log(Level.DEBUG, "NCCL could not free its communicator: {0}", result);
      }
    } catch (Ep4jException e) {
      LOG.log(Level.DEBUG, "NCCL could not free its communicator", e);
    }
  }
}
