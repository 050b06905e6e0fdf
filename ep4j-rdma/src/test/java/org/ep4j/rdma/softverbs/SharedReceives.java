package org.ep4j.rdma.softverbs;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.ep4j.rdma.verbs.bindings.Verbs;
import org.ep4j.rdma.verbs.bindings.VerbsQueues;

/** Receives for several queue pairs (a shared receive queue), in the domain of an end. */
@SuppressWarnings("restricted") // calls native functions of the device
final class SharedReceives {
  private static final SymbolLookup LIBRARY =
      SymbolLookup.libraryLookup(System.getenv("EP4J_IB_LIBRARY"), Arena.global());
  private static final ValueLayout.OfLong POINTER = ValueLayout.JAVA_LONG;
  private static final MethodHandle CREATE =
      Linker.nativeLinker()
          .downcallHandle(
              LIBRARY.findOrThrow("ibv_create_srq"),
              FunctionDescriptor.of(POINTER, POINTER, ValueLayout.ADDRESS));
  private static final MethodHandle DESTROY =
      Linker.nativeLinker()
          .downcallHandle(
              LIBRARY.findOrThrow("ibv_destroy_srq"),
              FunctionDescriptor.of(ValueLayout.JAVA_INT, POINTER));

  // ibv_srq_init_attr and ibv_context
  private static final long REQUEST_BYTES = 24;
  private static final long MAX_RECEIVES = 8;
  private static final long MAX_PIECES = 12;
  private static final long CONTEXT_BYTES = 328;
  private static final long POST = 8 + 20 * Long.BYTES;

  private final DeviceEnd owner;
  private final long queue;

  SharedReceives(DeviceEnd owner, int places) throws Throwable {
    this.owner = owner;
    try (Arena call = Arena.ofConfined()) {
      MemorySegment request = call.allocate(REQUEST_BYTES, Long.BYTES);
      request.set(ValueLayout.JAVA_INT, MAX_RECEIVES, places);
      request.set(ValueLayout.JAVA_INT, MAX_PIECES, 1);
      queue = (long) CREATE.invokeExact(owner.domain(), request);
    }
  }

  long address() {
    return queue;
  }

  /** Posts a receive into the memory of the owner. Returns 0 or an error number. */
  int receive(long id, long to, long bytes) {
    long context = Verbs.memory(queue, Long.BYTES).get(POINTER, 0);
    MemorySegment post =
        MemorySegment.ofAddress(Verbs.memory(context, CONTEXT_BYTES).get(POINTER, POST));
    try (Arena call = Arena.ofConfined()) {
      MemorySegment request = owner.receiveRequest(call, id, to, bytes);
      return VerbsQueues.post(post, queue, request.address(), call.allocate(POINTER).address());
    }
  }

  /** Returns 0 or an error number. */
  int destroy() throws Throwable {
    return (int) DESTROY.invokeExact(queue);
  }
}
