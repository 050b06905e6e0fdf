package org.ep4j.rdma.verbs.bindings;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/**
 * Binding of the setup functions of libibverbs: devices, ports, registered memory, queues. Objects
 * are pointers of the library, as numbers. Every method throws a {@link VerbsException} that names
 * the function.
 */
@SuppressWarnings("restricted") // calling native functions is what this class is for
public final class Verbs {
  private static final ValueLayout.OfLong POINTER = ValueLayout.JAVA_LONG;
  private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;
  private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
  private static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;

  /** Maximum size of a device name, including the terminating zero. */
  private static final int NAME_BYTES = 64;

  private static final StructLayout ERRNO_STATE = Linker.Option.captureStateLayout();
  private static final VarHandle ERRNO =
      ERRNO_STATE.varHandle(MemoryLayout.PathElement.groupElement("errno"));

  private static final MethodHandle GET_DEVICE_LIST =
      linkWithErrno("ibv_get_device_list", POINTER, POINTER);
  private static final MethodHandle FREE_DEVICE_LIST =
      link("ibv_free_device_list", FunctionDescriptor.ofVoid(POINTER));
  private static final MethodHandle GET_DEVICE_NAME =
      link("ibv_get_device_name", FunctionDescriptor.of(POINTER, POINTER));
  private static final MethodHandle OPEN_DEVICE =
      linkWithErrno("ibv_open_device", POINTER, POINTER);
  private static final MethodHandle CLOSE_DEVICE = release("ibv_close_device");
  private static final MethodHandle QUERY_DEVICE =
      link("ibv_query_device", FunctionDescriptor.of(INT, POINTER, POINTER));
  private static final MethodHandle QUERY_PORT =
      link("ibv_query_port", FunctionDescriptor.of(INT, POINTER, BYTE, POINTER));
  private static final MethodHandle QUERY_GID =
      link("ibv_query_gid", FunctionDescriptor.of(INT, POINTER, BYTE, INT, POINTER));
  private static final MethodHandle ALLOC_PD = linkWithErrno("ibv_alloc_pd", POINTER, POINTER);
  private static final MethodHandle DEALLOC_PD = release("ibv_dealloc_pd");
  private static final MethodHandle REG_MR =
      linkWithErrno("ibv_reg_mr", POINTER, POINTER, POINTER, POINTER, INT);

  /** Null if the library is older than rdma-core 34. */
  private static final @Nullable MethodHandle REG_DMABUF_MR =
      VerbsLibrary.has("ibv_reg_dmabuf_mr")
          ? linkWithErrno("ibv_reg_dmabuf_mr", POINTER, POINTER, LONG, LONG, LONG, INT, INT)
          : null;

  private static final MethodHandle DEREG_MR = release("ibv_dereg_mr");
  private static final MethodHandle CREATE_CQ =
      linkWithErrno("ibv_create_cq", POINTER, POINTER, INT, POINTER, POINTER, INT);
  private static final MethodHandle DESTROY_CQ = release("ibv_destroy_cq");
  private static final MethodHandle CREATE_QP =
      linkWithErrno("ibv_create_qp", POINTER, POINTER, POINTER);
  private static final MethodHandle MODIFY_QP =
      link("ibv_modify_qp", FunctionDescriptor.of(INT, POINTER, POINTER, INT));
  private static final MethodHandle DESTROY_QP = release("ibv_destroy_qp");
  private static final MethodHandle WC_STATUS_STR =
      link("ibv_wc_status_str", FunctionDescriptor.of(POINTER, INT));

  private Verbs() {}

  private static MethodHandle link(
      String function, FunctionDescriptor descriptor, Linker.Option... options) {
    return Linker.nativeLinker()
        .downcallHandle(VerbsLibrary.address(function), descriptor, options);
  }

  private static MethodHandle linkWithErrno(
      String function, MemoryLayout result, MemoryLayout... parameters) {
    return link(
        function,
        FunctionDescriptor.of(result, parameters),
        Linker.Option.captureCallState("errno"));
  }

  private static MethodHandle release(String function) {
    return link(function, FunctionDescriptor.of(INT, POINTER));
  }

  /**
   * Opens a device by its name.
   *
   * @return an {@code ibv_context}; 0 if the device does not exist
   */
  public static long open(String name) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment state = arena.allocate(ERRNO_STATE);
      MemorySegment count = arena.allocate(INT);
      long list = (long) GET_DEVICE_LIST.invokeExact(state, count.address());
      checkPointer(list, state, "ibv_get_device_list");
      try {
        MemorySegment devices = memory(list, (long) count.get(INT, 0) * Long.BYTES);
        for (int i = 0; i < count.get(INT, 0); i++) {
          long device = devices.getAtIndex(POINTER, i);
          long text = (long) GET_DEVICE_NAME.invokeExact(device);
          if (memory(text, NAME_BYTES).getString(0).equals(name)) {
            long context = (long) OPEN_DEVICE.invokeExact(state, device);
            return checkPointer(context, state, "ibv_open_device");
          }
        }
        return 0;
      } finally {
        FREE_DEVICE_LIST.invokeExact(list);
      }
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Fills an {@code ibv_device_attr}. */
  public static void queryDevice(long context, MemorySegment attributes) {
    try {
      check((int) QUERY_DEVICE.invokeExact(context, attributes.address()), "ibv_query_device");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Fills an {@code ibv_port_attr}. */
  public static void queryPort(long context, int port, MemorySegment attributes) {
    try {
      check(
          (int) QUERY_PORT.invokeExact(context, (byte) port, attributes.address()),
          "ibv_query_port");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Writes an address of a port (16 bytes). */
  public static void queryGid(long context, int port, int index, MemorySegment gid) {
    try {
      check(
          (int) QUERY_GID.invokeExact(context, (byte) port, index, gid.address()), "ibv_query_gid");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Creates a protection domain. */
  public static long allocateDomain(long context) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment state = arena.allocate(ERRNO_STATE);
      long domain = (long) ALLOC_PD.invokeExact(state, context);
      return checkPointer(domain, state, "ibv_alloc_pd");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Registers memory; returns an {@code ibv_mr}. */
  public static long register(long domain, long address, long bytes, int access) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment state = arena.allocate(ERRNO_STATE);
      long region = (long) REG_MR.invokeExact(state, domain, address, bytes, access);
      return checkPointer(region, state, "ibv_reg_mr of " + bytes + " bytes");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /**
   * Registers the memory of a dma-buf; returns an {@code ibv_mr}.
   *
   * @param address address of its first byte in requests
   */
  public static long registerDmaBuf(long domain, long address, long bytes, int dmaBuf, int access) {
    MethodHandle register = REG_DMABUF_MR;
    if (register == null) {
      throw new VerbsException(
          ErrorCode.VERBS_CALL_FAILED,
          "libibverbs has no ibv_reg_dmabuf_mr: install rdma-core 34 or newer",
          null);
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment state = arena.allocate(ERRNO_STATE);
      long region = (long) register.invokeExact(state, domain, 0L, bytes, address, dmaBuf, access);
      return checkPointer(region, state, "ibv_reg_dmabuf_mr of " + bytes + " bytes");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Creates a completion queue without events. */
  public static long createCompletionQueue(long context, int entries) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment state = arena.allocate(ERRNO_STATE);
      long queue = (long) CREATE_CQ.invokeExact(state, context, entries, 0L, 0L, 0);
      return checkPointer(queue, state, "ibv_create_cq of " + entries + " entries");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Creates a queue pair; the library writes the granted limits into {@code request}. */
  public static long createQueuePair(long domain, MemorySegment request) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment state = arena.allocate(ERRNO_STATE);
      long pair = (long) CREATE_QP.invokeExact(state, domain, request.address());
      return checkPointer(pair, state, "ibv_create_qp");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Changes the attributes of a queue pair in {@code mask}. */
  public static void modify(long pair, MemorySegment attributes, int mask, String step) {
    try {
      check(
          (int) MODIFY_QP.invokeExact(pair, attributes.address(), mask),
          "ibv_modify_qp to " + step);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Closes a device. */
  public static void closeDevice(long object) {
    try {
      check((int) CLOSE_DEVICE.invokeExact(object), "ibv_close_device");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Deallocates a protection domain. */
  public static void deallocateDomain(long object) {
    try {
      check((int) DEALLOC_PD.invokeExact(object), "ibv_dealloc_pd");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Deregisters memory: the device no longer accesses it. */
  public static void deregister(long object) {
    try {
      check((int) DEREG_MR.invokeExact(object), "ibv_dereg_mr");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Destroys a completion queue. */
  public static void destroyCompletionQueue(long object) {
    try {
      check((int) DESTROY_CQ.invokeExact(object), "ibv_destroy_cq");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Destroys a queue pair: the device no longer processes its requests. */
  public static void destroyQueuePair(long object) {
    try {
      check((int) DESTROY_QP.invokeExact(object), "ibv_destroy_qp");
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Text of the status of a completion. */
  public static String statusText(int status) {
    try {
      return memory((long) WC_STATUS_STR.invokeExact(status), NAME_BYTES).getString(0);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** Memory of the library, for reading. */
  public static MemorySegment memory(long address, long bytes) {
    return MemorySegment.ofAddress(address).reinterpret(bytes);
  }

  private static void check(int error, String function) {
    VerbsException.check(error, function);
  }

  private static long checkPointer(long pointer, MemorySegment state, String function) {
    if (pointer == 0) {
      throw VerbsException.failed(function, (int) ERRNO.get(state, 0L));
    }
    return pointer;
  }

  private static VerbsException thrown(Throwable t) {
    return t instanceof VerbsException e ? e : VerbsException.unexpected(t);
  }
}
