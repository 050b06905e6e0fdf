package org.ep4j.cuda.driver.calls;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * Binding of the driver's functions for streams and events. Every method throws a {@link
 * CudaException} that names the function, except those that return a result code.
 */
@SuppressWarnings("restricted") // links native functions
public final class StreamCalls {
  private static final MethodHandle STREAM_CREATE_WITH_PRIORITY =
      link(DriverFunction.STREAM_CREATE_WITH_PRIORITY);
  private static final MethodHandle STREAM_DESTROY = link(DriverFunction.STREAM_DESTROY);
  private static final MethodHandle STREAM_SYNCHRONIZE = link(DriverFunction.STREAM_SYNCHRONIZE);
  private static final MethodHandle STREAM_QUERY = link(DriverFunction.STREAM_QUERY);
  private static final MethodHandle STREAM_WAIT_EVENT = link(DriverFunction.STREAM_WAIT_EVENT);
  private static final MethodHandle STREAM_BEGIN_CAPTURE =
      link(DriverFunction.STREAM_BEGIN_CAPTURE);
  private static final MethodHandle STREAM_END_CAPTURE = link(DriverFunction.STREAM_END_CAPTURE);
  private static final MethodHandle STREAM_IS_CAPTURING = link(DriverFunction.STREAM_IS_CAPTURING);
  private static final MethodHandle THREAD_EXCHANGE_STREAM_CAPTURE_MODE =
      link(DriverFunction.THREAD_EXCHANGE_STREAM_CAPTURE_MODE);
  private static final MethodHandle EVENT_CREATE = link(DriverFunction.EVENT_CREATE);
  private static final MethodHandle EVENT_DESTROY = link(DriverFunction.EVENT_DESTROY);
  private static final MethodHandle EVENT_RECORD = link(DriverFunction.EVENT_RECORD);
  private static final MethodHandle EVENT_QUERY = link(DriverFunction.EVENT_QUERY);
  private static final MethodHandle EVENT_SYNCHRONIZE = link(DriverFunction.EVENT_SYNCHRONIZE);
  private static final MethodHandle EVENT_ELAPSED_TIME = link(DriverFunction.EVENT_ELAPSED_TIME);

  private StreamCalls() {}

  /** Creates a stream of the current context. */
  public static long create(int flags, int priority) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result = (int) STREAM_CREATE_WITH_PRIORITY.invokeExact(out.address(), flags, priority);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.STREAM_CREATE_WITH_PRIORITY);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Destroys a stream after its work is done; does not wait. */
  public static void destroy(long stream) {
    int result;
    try {
      result = (int) STREAM_DESTROY.invokeExact(stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.STREAM_DESTROY);
  }

  /** Waits for the work of a stream. */
  public static void synchronize(long stream) {
    int result;
    try {
      result = (int) STREAM_SYNCHRONIZE.invokeExact(stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.STREAM_SYNCHRONIZE);
  }

  /** Returns success, not ready, or an error. */
  public static int query(long stream) {
    try {
      return (int) STREAM_QUERY.invokeExact(stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Makes later work of the stream wait for an event. */
  public static void waitEvent(long stream, long event, int flags) {
    int result;
    try {
      result = (int) STREAM_WAIT_EVENT.invokeExact(stream, event, flags);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.STREAM_WAIT_EVENT);
  }

  /** Starts recording the stream into a graph. */
  public static void beginCapture(long stream, int mode) {
    int result;
    try {
      result = (int) STREAM_BEGIN_CAPTURE.invokeExact(stream, mode);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.STREAM_BEGIN_CAPTURE);
  }

  /** Ends recording and returns the graph. */
  public static long endCapture(long stream) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result = (int) STREAM_END_CAPTURE.invokeExact(stream, out.address());
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.STREAM_END_CAPTURE);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Replaces what captures forbid this thread, and writes what they forbade before. */
  static void exchangeCaptureMode(MemorySegment mode) {
    int result;
    try {
      result = (int) THREAD_EXCHANGE_STREAM_CAPTURE_MODE.invokeExact(mode.address());
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.THREAD_EXCHANGE_STREAM_CAPTURE_MODE);
  }

  /** Writes and returns the status: 0 none, 1 recording, 2 invalidated. */
  public static int captureStatus(long stream, MemorySegment word) {
    int result;
    try {
      result = (int) STREAM_IS_CAPTURING.invokeExact(stream, word.address());
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.STREAM_IS_CAPTURING);
    return word.get(ValueLayout.JAVA_INT, 0);
  }

  /** Creates an event of the current context. */
  public static long createEvent(int flags) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result = (int) EVENT_CREATE.invokeExact(out.address(), flags);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.EVENT_CREATE);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Destroys an event after its completion; does not wait. */
  public static void destroyEvent(long event) {
    int result;
    try {
      result = (int) EVENT_DESTROY.invokeExact(event);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.EVENT_DESTROY);
  }

  /** Records an event after all work enqueued in the stream so far. */
  public static void recordEvent(long event, long stream) {
    int result;
    try {
      result = (int) EVENT_RECORD.invokeExact(event, stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.EVENT_RECORD);
  }

  /** Returns success, not ready, or an error. */
  public static int queryEvent(long event) {
    try {
      return (int) EVENT_QUERY.invokeExact(event);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Waits for an event. */
  public static void synchronizeEvent(long event) {
    int result;
    try {
      result = (int) EVENT_SYNCHRONIZE.invokeExact(event);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.EVENT_SYNCHRONIZE);
  }

  /** Milliseconds between two completed events. */
  public static float elapsedMillis(long start, long end) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_FLOAT);
      int result;
      try {
        result = (int) EVENT_ELAPSED_TIME.invokeExact(out.address(), start, end);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.EVENT_ELAPSED_TIME);
      return out.get(ValueLayout.JAVA_FLOAT, 0);
    }
  }

  private static MethodHandle link(DriverFunction function) {
    return Linker.nativeLinker()
        .downcallHandle(DriverLibrary.address(function), function.descriptor());
  }
}
