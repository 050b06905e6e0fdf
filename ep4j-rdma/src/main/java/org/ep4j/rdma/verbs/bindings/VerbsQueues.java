package org.ep4j.rdma.verbs.bindings;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * Binding of the three calls that transfer bytes. They have no symbols: the driver of a device
 * writes their addresses into its {@code ibv_context}.
 */
@SuppressWarnings("restricted") // calling native functions is what this class is for
public final class VerbsQueues {
  private static final ValueLayout.OfLong POINTER = ValueLayout.JAVA_LONG;
  private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;

  /** Reads a queue in memory: short, so the call needs no transition of the JVM (critical). */
  private static final MethodHandle POLL =
      Linker.nativeLinker()
          .downcallHandle(
              FunctionDescriptor.of(INT, POINTER, INT, POINTER), Linker.Option.critical(false));

  /** May enter the kernel. */
  private static final MethodHandle POST =
      Linker.nativeLinker().downcallHandle(FunctionDescriptor.of(INT, POINTER, POINTER, POINTER));

  private VerbsQueues() {}

  /**
   * Polls completions of a queue.
   *
   * @param function {@code poll_cq} of the device
   * @param completions space for {@code max} structures {@code ibv_wc}
   * @return number of completions; negative if the queue failed
   */
  public static int poll(MemorySegment function, long queue, int max, long completions) {
    try {
      return (int) POLL.invokeExact(function, queue, max, completions);
    } catch (Throwable t) {
      throw VerbsException.unexpected(t);
    }
  }

  /**
   * Posts linked requests to a queue pair with one doorbell.
   *
   * @param function {@code post_send} or {@code post_recv} of the device
   * @param firstRefused address at which the call stores the first refused request
   * @return 0 or an error number
   */
  public static int post(MemorySegment function, long pair, long requests, long firstRefused) {
    try {
      return (int) POST.invokeExact(function, pair, requests, firstRefused);
    } catch (Throwable t) {
      throw VerbsException.unexpected(t);
    }
  }
}
