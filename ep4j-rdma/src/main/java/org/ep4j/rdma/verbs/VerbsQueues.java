package org.ep4j.rdma.verbs;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * Binding of the three calls that move bytes. They have no symbols: a device's driver puts their
 * addresses into its {@code ibv_context}.
 */
@SuppressWarnings("restricted") // calling native functions is what this class is for
final class VerbsQueues {
  private static final ValueLayout.OfLong POINTER = ValueLayout.JAVA_LONG;
  private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;

  /** Reading a queue in memory: short, so it need not leave the JVM's books in order. */
  private static final MethodHandle POLL =
      Linker.nativeLinker()
          .downcallHandle(
              FunctionDescriptor.of(INT, POINTER, INT, POINTER), Linker.Option.critical(false));

  /** May enter the kernel. */
  private static final MethodHandle POST =
      Linker.nativeLinker().downcallHandle(FunctionDescriptor.of(INT, POINTER, POINTER, POINTER));

  private VerbsQueues() {}

  /**
   * Takes completions off a queue.
   *
   * @param function {@code poll_cq} of the device
   * @param completions room for {@code most} of {@code ibv_wc}
   * @return how many; negative if the queue is broken
   */
  static int poll(MemorySegment function, long queue, int max, long completions) {
    try {
      return (int) POLL.invokeExact(function, queue, max, completions);
    } catch (Throwable t) {
      throw VerbsException.unexpected(t);
    }
  }

  /**
   * Hands linked requests to a queue pair, all with one ring of its bell.
   *
   * @param function {@code post_send} or {@code post_recv} of the device
   * @param firstRefused where the call leaves the first request that it did not take
   * @return 0 or an error number
   */
  static int post(MemorySegment function, long pair, long requests, long firstRefused) {
    try {
      return (int) POST.invokeExact(function, pair, requests, firstRefused);
    } catch (Throwable t) {
      throw VerbsException.unexpected(t);
    }
  }
}
