package org.ep4j.rdma.ucx.bindings;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/**
 * Binding of the functions that UCX calls. An exception thrown into UCX would end the process; the
 * handler receives it instead.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
public final class UcpCallbacks {
  /** Events of a worker, called during calls of this thread to UCX. */
  public interface Handler {
    /** A message arrived; its bytes are valid during the call. */
    void message(long address, long bytes);

    /** An endpoint failed; its number is {@code err_handler.arg}. */
    void endpointFailed(int number, int status);

    /** A call to this handler threw. */
    void threw(Throwable thrown);
  }

  private static final MethodHandle MESSAGE =
      find(
          "message",
          MethodType.methodType(
              byte.class,
              Handler.class,
              long.class,
              long.class,
              long.class,
              long.class,
              long.class,
              long.class));
  private static final MethodHandle ENDPOINT_FAILED =
      find(
          "endpointFailed",
          MethodType.methodType(void.class, Handler.class, long.class, long.class, byte.class));

  private UcpCallbacks() {}

  /** A function for {@code ucp_am_handler_param_t.cb}, valid as long as the arena. */
  public static MemorySegment messages(Handler handler, Arena arena) {
    return Linker.nativeLinker()
        .upcallStub(
            MESSAGE.bindTo(handler),
            FunctionDescriptor.of(
                ValueLayout.JAVA_BYTE,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG),
            arena);
  }

  /** A function for {@code ucp_err_handler_t.cb}, valid as long as the arena. */
  public static MemorySegment failures(Handler handler, Arena arena) {
    return Linker.nativeLinker()
        .upcallStub(
            ENDPOINT_FAILED.bindTo(handler),
            FunctionDescriptor.ofVoid(
                ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_BYTE),
            arena);
  }

  static byte message(
      Handler handler,
      long argument,
      long header,
      long headerBytes,
      long data,
      long bytes,
      long param) {
    try {
      handler.message(data, bytes);
    } catch (Throwable t) {
      handler.threw(t);
    }
    return UcpConstants.UCS_OK;
  }

  static void endpointFailed(Handler handler, long argument, long endpoint, byte status) {
    try {
      handler.endpointFailed((int) argument, status);
    } catch (Throwable t) {
      handler.threw(t);
    }
  }

  private static MethodHandle find(String name, MethodType type) {
    try {
      return MethodHandles.lookup().findStatic(UcpCallbacks.class, name, type);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }
}
