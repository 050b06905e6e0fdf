package org.ep4j.nvshmem;

import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.BoundedCall;
import org.ep4j.cuda.driver.calls.NativeExit;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/**
 * The process-wide NVSHMEM runtime of all buffers. The first open starts it and the last close ends
 * it, on all ranks at the same time, because opening and closing a buffer are collective.
 */
final class NvshmemRuntime {
  private static final System.Logger LOG = System.getLogger("org.ep4j.nvshmem");
  private static final Duration PARTING = Duration.ofSeconds(10);

  // NVSHMEM keeps the addresses of both; a new start is possible only after its end.
  private static final MemorySegment ATTRIBUTES =
      Arena.global().allocate(NvshmemLayouts.INIT_ATTRIBUTES);
  private static final MemorySegment ID = Arena.global().allocate(NvshmemLayouts.UNIQUE_ID);

  /** Number of open buffers; guarded by the class, as are all fields below. */
  private static int users;

  /** The job and the rank of the start. */
  private static String location = "";

  /** A call has not returned or a rank is dead: no further calls are made. */
  private static boolean broken;

  private NvshmemRuntime() {}

  static synchronized boolean isRunning() {
    return users > 0;
  }

  /**
   * All of {@link #start} that needs no other rank; repeated calls are allowed.
   *
   * @throws NvshmemException if the runtime cannot start here
   */
  static synchronized void prepare(BackendWorld world, byte[] id) {
    NvshmemNetwork.choose(world);
    String wanted = location(world);
    if (broken) {
      throw new NvshmemException(
          ErrorCode.NVSHMEM_BROKEN,
          "NVSHMEM has failed in this process before and cannot start again: restart the"
              + " process, or use backend 'direct'");
    }
    if (users > 0 && !wanted.equals(location)) {
      throw new NvshmemException(
          ErrorCode.NVSHMEM_IN_USE,
          "NVSHMEM serves one group of ranks per process: it runs as %s and cannot run as %s: close that buffer first, or use backend 'direct' or 'nccl' for one of them"
              .formatted(location, wanted));
    }
    if (users > 0 != (id.length == 0)) {
      throw new NvshmemException(
          ErrorCode.NVSHMEM_IN_USE,
          "NVSHMEM runs on some ranks and not on others: close all buffers that use it first");
    }
    if (users == 0) {
      describe(world, id);
    }
  }

  /** Starts the runtime for one more buffer; collective, after {@link #prepare} on all ranks. */
  static synchronized void start(BackendWorld world, byte[] id) {
    prepare(world, id);
    if (users == 0) {
      init(world);
      location = location(world);
    }
    users++;
  }

  private static String location(BackendWorld world) {
    return "rank %d of %d of job %s"
        .formatted(
            world.participants().rank(),
            world.participants().ranks(),
            world.participants().group().jobId());
  }

  /** Writes what the start reads. */
  private static void describe(BackendWorld world, byte[] id) {
    if (id.length != NvshmemLayouts.UNIQUE_ID.byteSize()) {
      throw new NvshmemException(
          ErrorCode.NVSHMEM_INCOMPATIBLE,
          "the unique id of rank 0 has "
              + id.length
              + " bytes, not "
              + NvshmemLayouts.UNIQUE_ID.byteSize()
              + ": use the same backend on all ranks");
    }
    int rank = world.participants().rank();
    int ranks = world.participants().ranks();
    ATTRIBUTES.fill((byte) 0);
    NvshmemLayouts.markAttributes(ATTRIBUTES);
    ID.copyFrom(MemorySegment.ofArray(id));
    checkIdKind(ID);
    NvshmemException.check(
        NvshmemCalls.setUniqueIdArgs(rank, ranks, ID.address(), ATTRIBUTES.address()),
        NvshmemFunction.SET_UNIQUE_ID_ARGS);
    int[] numbers = NvshmemLayouts.numbers(ATTRIBUTES);
    if (numbers[0] != rank || numbers[1] != ranks) {
      throw new NvshmemException(
          ErrorCode.NVSHMEM_INCOMPATIBLE,
          "this NVSHMEM has other structures than 3.4.5: it wrote rank %d of %d instead of %d of %d: install NVSHMEM 3.4"
              .formatted(numbers[0], numbers[1], rank, ranks));
    }
  }

  private static void init(BackendWorld world) {
    int rank = world.participants().rank();
    int ranks = world.participants().ranks();
    ask(
        world,
        NvshmemFunction.INIT,
        world.setUpTimeout(),
        () -> {
          NvshmemException.check(
              NvshmemCalls.init(NvshmemLayouts.INIT_WITH_UNIQUE_ID, ATTRIBUTES.address()),
              NvshmemFunction.INIT);
          return 0;
        });
    if (NvshmemCalls.rank() != rank || NvshmemCalls.ranks() != ranks) {
      // The runtime is started, and ending it would need all ranks.
      breakDown();
      throw new NvshmemException(
          ErrorCode.NVSHMEM_INCOMPATIBLE,
          "NVSHMEM reports rank %d of %d instead of rank %d of %d"
              .formatted(NvshmemCalls.rank(), NvshmemCalls.ranks(), rank, ranks));
    }
  }

  private static void checkIdKind(MemorySegment id) {
    int version = id.get(ValueLayout.JAVA_INT, 0);
    if (version != NvshmemLayouts.version(NvshmemLayouts.UNIQUE_ID)) {
      throw new NvshmemException(
          ErrorCode.NVSHMEM_INCOMPATIBLE,
          "the unique id of rank 0 is of kind 0x%x, not 0x%x: install one version of NVSHMEM on all hosts"
              .formatted(version, NvshmemLayouts.version(NvshmemLayouts.UNIQUE_ID)));
    }
  }

  /** A call that waits for the other ranks. */
  private static long ask(
      BackendWorld world, NvshmemFunction function, Duration limit, LongSupplier call) {
    AtomicBoolean returned = new AtomicBoolean();
    LongSupplier watched =
        () -> {
          try {
            return call.getAsLong();
          } finally {
            returned.set(true);
          }
        };
    boolean done = false;
    try {
      long result = BoundedCall.call(world, function.symbol(), limit, watched);
      done = true;
      return result;
    } finally {
      if (!done) {
        breakDown();
      }
      if (!returned.get()) {
        // The call waits for other ranks on the device, in a kernel without a deadline.
        world.device().hold();
        LOG.log(
            Level.WARNING,
            "{0} does not return and may wait on {1} in a kernel without a deadline: memory of"
                + " buffers closed there stays allocated until this process ends; end the process"
                + " soon",
            function.symbol(),
            world.device());
      }
    }
  }

  /**
   * Marks the runtime as broken: it is not finalised, and the process exit must skip its
   * destructors if the program allows it.
   */
  private static void breakDown() {
    if (!NativeExit.skipDestructors() && !broken) {
      LOG.log(
          Level.WARNING,
          "NVSHMEM is half ended and may crash this process when it exits. Start it with -D{0}=true"
              + " to skip the exit handlers of all native libraries in that case",
          NativeExit.PROPERTY);
    }
    broken = true;
  }

  /** Allocates on all ranks; collective. */
  static synchronized long allocate(BackendWorld world, long alignment, long bytes) {
    long address =
        ask(
            world,
            NvshmemFunction.ALIGN,
            world.setUpTimeout(),
            () -> NvshmemCalls.align(alignment, bytes));
    if (address == 0) {
      throw new NvshmemException(
          ErrorCode.NVSHMEM_OUT_OF_MEMORY,
          NvshmemFunction.ALIGN.symbol()
              + " failed: "
              + world.device().wants(bytes)
              + "; NVSHMEM_MAX_MEMORY_PER_GPU and NVSHMEM_CUMEM_GRANULARITY limit the heap");
    }
    return address;
  }

  /**
   * Frees on all ranks if all are alive; otherwise the memory stays allocated until the process
   * ends.
   */
  static synchronized void free(BackendWorld world, long address) {
    if (together(world, "memory")) {
      ask(
          world,
          NvshmemFunction.FREE,
          PARTING,
          () -> {
            NvshmemCalls.free(address);
            return 0;
          });
    }
  }

  /** Releases one buffer; the last one ends NVSHMEM if all ranks are alive. */
  static synchronized void stop(BackendWorld world) {
    users--;
    if (users == 0 && together(world, "runtime")) {
      ask(
          world,
          NvshmemFunction.FINALIZE,
          PARTING,
          () -> {
            NvshmemCalls.finish();
            return 0;
          });
      // A rank that left the group before all have ended the runtime would look dead to the others.
      awaitParting(world);
    }
  }

  private static void awaitParting(BackendWorld world) {
    try {
      world.participants().group().barrier(PARTING);
    } catch (Ep4jException | IllegalStateException e) {
      LOG.log(Level.DEBUG, "NVSHMEM has ended here, and not on all ranks: {0}", e.getMessage());
    }
  }

  /** Whether all ranks have reached the common release of a resource. */
  private static boolean together(BackendWorld world, String what) {
    if (!broken) {
      try {
        world.participants().group().barrier(PARTING);
        return true;
      } catch (Ep4jException | IllegalStateException e) {
        breakDown();
        LOG.log(
            Level.WARNING,
            "NVSHMEM can release its {0} only on all ranks together, and a rank is missing ({1}):"
                + " it stays allocated until this process ends",
            what,
            e.getMessage());
      }
    }
    return false;
  }
}
