package org.ep4j.rdma.ucx.bindings;

import java.lang.foreign.Linker;
import java.lang.invoke.MethodHandle;

/**
 * Binding of the functions of UCX that transfer bytes. A returned request is 0 if the work is done,
 * a status if it failed ({@link UcpStatus#isError}), else a handle to poll and to free.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
public final class UcpTraffic {
  private static final MethodHandle WORKER_PROGRESS = link(UcpFunction.WORKER_PROGRESS);
  private static final MethodHandle AM_SEND = link(UcpFunction.AM_SEND);
  private static final MethodHandle PUT = link(UcpFunction.PUT);
  private static final MethodHandle EP_FLUSH = link(UcpFunction.EP_FLUSH);
  private static final MethodHandle REQUEST_CHECK_STATUS =
      link(UcpFunction.REQUEST_CHECK_STATUS, Linker.Option.critical(false));
  private static final MethodHandle REQUEST_FREE = link(UcpFunction.REQUEST_FREE);

  private UcpTraffic() {}

  /** Progresses work and calls the handlers; returns the amount of progress, without a unit. */
  public static int progress(long worker) {
    try {
      return (int) WORKER_PROGRESS.invokeExact(worker);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Sends a message; returns a request. */
  public static long send(
      long endpoint, int id, long header, long headerBytes, long buffer, long bytes, long params) {
    try {
      return (long) AM_SEND.invokeExact(endpoint, id, header, headerBytes, buffer, bytes, params);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /**
   * Writes to memory of the peer; returns a request, which ends when the local bytes may change.
   */
  public static long put(
      long endpoint, long buffer, long bytes, long address, long key, long params) {
    try {
      return (long) PUT.invokeExact(endpoint, buffer, bytes, address, key, params);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Returns a request that ends when all earlier puts are visible at the peer. */
  public static long flush(long endpoint, long params) {
    try {
      return (long) EP_FLUSH.invokeExact(endpoint, params);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Status of a request. */
  public static byte status(long request) {
    try {
      return (byte) REQUEST_CHECK_STATUS.invokeExact(request);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Frees a request. */
  public static void free(long request) {
    try {
      REQUEST_FREE.invokeExact(request);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  private static MethodHandle link(UcpFunction function, Linker.Option... options) {
    return Linker.nativeLinker()
        .downcallHandle(UcxLibrary.address(function), function.descriptor(), options);
  }
}
