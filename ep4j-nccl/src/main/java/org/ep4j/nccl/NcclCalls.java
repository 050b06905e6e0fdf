package org.ep4j.nccl;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.jspecify.annotations.Nullable;

/**
 * Binding of NCCL. Every method returns the library's result code; {@link NcclException} checks it.
 * Use it only after the probe has found all required functions.
 */
@SuppressWarnings("restricted") // links native functions
final class NcclCalls {
  private static final MethodHandle GET_UNIQUE_ID = link(NcclFunction.GET_UNIQUE_ID);
  private static final MethodHandle COMM_INIT = link(NcclFunction.COMM_INIT);
  private static final MethodHandle COMM_ASYNC_ERROR = link(NcclFunction.COMM_ASYNC_ERROR);
  private static final MethodHandle COMM_FINALIZE = link(NcclFunction.COMM_FINALIZE);
  private static final MethodHandle COMM_DESTROY = link(NcclFunction.COMM_DESTROY);
  private static final MethodHandle COMM_ABORT = link(NcclFunction.COMM_ABORT);
  private static final MethodHandle MEM_ALLOC = link(NcclFunction.MEM_ALLOC);
  private static final MethodHandle MEM_FREE = link(NcclFunction.MEM_FREE);
  private static final MethodHandle WINDOW_REGISTER = link(NcclFunction.WINDOW_REGISTER);
  private static final MethodHandle WINDOW_DEREGISTER = link(NcclFunction.WINDOW_DEREGISTER);
  private static final MethodHandle GROUP_START = link(NcclFunction.GROUP_START);
  private static final MethodHandle GROUP_END = link(NcclFunction.GROUP_END);
  private static final MethodHandle SEND = link(NcclFunction.SEND);
  private static final MethodHandle RECEIVE = link(NcclFunction.RECEIVE);
  private static final MethodHandle ALL_REDUCE = link(NcclFunction.ALL_REDUCE);
  private static final @Nullable MethodHandle PEER_POINTER = ifThere(NcclFunction.PEER_POINTER);
  private static final @Nullable MethodHandle DEVICE_COMM_CREATE =
      ifThere(NcclFunction.DEVICE_COMM_CREATE);
  private static final @Nullable MethodHandle DEVICE_COMM_DESTROY =
      ifThere(NcclFunction.DEVICE_COMM_DESTROY);
  private static final MethodHandle ERROR_STRING =
      text(NcclFunction.ERROR_TEXTS.getFirst(), ValueLayout.JAVA_INT);
  private static final MethodHandle LAST_ERROR =
      text(NcclFunction.ERROR_TEXTS.getLast(), ValueLayout.JAVA_LONG);

  /** Longer than any text of the library. */
  private static final long MAX_TEXT = 1 << 16;

  private NcclCalls() {}

  /** Writes an id. */
  static int uniqueId(long out) {
    try {
      return (int) GET_UNIQUE_ID.invokeExact(out);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Writes a communicator. */
  static int commInit(long out, int ranks, MemorySegment id, int rank, long config) {
    try {
      return (int) COMM_INIT.invokeExact(out, ranks, id, rank, config);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Writes a result. */
  static int asyncError(long comm, long out) {
    try {
      return (int) COMM_ASYNC_ERROR.invokeExact(comm, out);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Completes outstanding work of the communicator. */
  static int finish(long comm) {
    try {
      return (int) COMM_FINALIZE.invokeExact(comm);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Frees a communicator. */
  static int destroy(long comm) {
    try {
      return (int) COMM_DESTROY.invokeExact(comm);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Frees a communicator with outstanding work. */
  static int abort(long comm) {
    try {
      return (int) COMM_ABORT.invokeExact(comm);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Writes an address. */
  static int allocate(long out, long bytes) {
    try {
      return (int) MEM_ALLOC.invokeExact(out, bytes);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Frees memory. */
  static int free(long address) {
    try {
      return (int) MEM_FREE.invokeExact(address);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Writes a window. */
  static int register(long comm, long address, long bytes, long out, int flags) {
    try {
      return (int) WINDOW_REGISTER.invokeExact(comm, address, bytes, out, flags);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Frees a window. */
  static int deregister(long comm, long window) {
    try {
      return (int) WINDOW_DEREGISTER.invokeExact(comm, window);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Enqueues an all-reduce. */
  static int allReduce(
      long from, long to, long count, int type, int operation, long comm, long stream) {
    try {
      return (int) ALL_REDUCE.invokeExact(from, to, count, type, operation, comm, stream);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Starts a group of calls of this thread. */
  static int groupStart() {
    try {
      return (int) GROUP_START.invokeExact();
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Submits the group. */
  static int groupEnd() {
    try {
      return (int) GROUP_END.invokeExact();
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Enqueues a send. */
  static int send(long from, long count, int type, int peer, long comm, long stream) {
    try {
      return (int) SEND.invokeExact(from, count, type, peer, comm, stream);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Enqueues a receive. */
  static int receive(long to, long count, int type, int peer, long comm, long stream) {
    try {
      return (int) RECEIVE.invokeExact(to, count, type, peer, comm, stream);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Whether the library has {@link #peerPointer}. */
  static boolean hasPeerPointer() {
    return PEER_POINTER != null;
  }

  /** Writes an address, or 0 if the peer's memory is not accessible. */
  static int peerPointer(long window, long offset, int peer, long out) {
    MethodHandle handle = PEER_POINTER;
    if (handle == null) {
      throw new IllegalStateException("this NCCL returns no addresses of peers");
    }
    try {
      return (int) handle.invokeExact(window, offset, peer, out);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Whether the library has {@link #deviceCommCreate}. */
  static boolean hasDeviceComms() {
    return DEVICE_COMM_CREATE != null && DEVICE_COMM_DESTROY != null;
  }

  /** Writes an ncclDevComm. */
  static int deviceCommCreate(long comm, long requirements, long out) {
    MethodHandle handle = DEVICE_COMM_CREATE;
    if (handle == null) {
      throw new IllegalStateException("this NCCL has no device communicators");
    }
    try {
      return (int) handle.invokeExact(comm, requirements, out);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Frees the resources of an ncclDevComm. */
  static int deviceCommDestroy(long comm, long deviceComm) {
    MethodHandle handle = DEVICE_COMM_DESTROY;
    if (handle == null) {
      throw new IllegalStateException("this NCCL has no device communicators");
    }
    try {
      return (int) handle.invokeExact(comm, deviceComm);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** The library's text for a result. */
  static String errorText(int result) {
    try {
      return textAt((long) ERROR_STRING.invokeExact(result));
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** The library's text about the last error of this thread; may be empty. */
  static String lastError(long comm) {
    try {
      return textAt((long) LAST_ERROR.invokeExact(comm));
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  private static String textAt(long address) {
    return address == 0
        ? ""
        : MemorySegment.ofAddress(address).reinterpret(MAX_TEXT).getString(0).strip();
  }

  private static @Nullable MethodHandle ifThere(NcclFunction function) {
    return NcclLibrary.has(function.symbol()) ? link(function) : null;
  }

  private static MethodHandle link(NcclFunction function) {
    return Linker.nativeLinker()
        .downcallHandle(NcclLibrary.address(function.symbol()), function.descriptor());
  }

  private static MethodHandle text(String symbol, ValueLayout parameter) {
    return Linker.nativeLinker()
        .downcallHandle(
            NcclLibrary.address(symbol), FunctionDescriptor.of(ValueLayout.JAVA_LONG, parameter));
  }
}
