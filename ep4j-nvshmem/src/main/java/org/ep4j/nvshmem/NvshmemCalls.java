package org.ep4j.nvshmem;

import java.lang.foreign.Linker;
import java.lang.invoke.MethodHandle;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Binding of NVSHMEM. Use it only after the probe has found all functions. Collective functions wait for the other ranks without a limit: call them through {@link org.ep4j.cuda.backend.BoundedCall}.
 */
@SuppressWarnings("restricted") // links native functions
final class NvshmemCalls {
  private static final MethodHandle GET_UNIQUE_ID = link(NvshmemFunction.GET_UNIQUE_ID);
  private static final MethodHandle SET_UNIQUE_ID_ARGS = link(NvshmemFunction.SET_UNIQUE_ID_ARGS);
  private static final MethodHandle INIT = link(NvshmemFunction.INIT);
  private static final MethodHandle FINALIZE = link(NvshmemFunction.FINALIZE);
  private static final MethodHandle MY_PE = link(NvshmemFunction.MY_PE);
  private static final MethodHandle N_PES = link(NvshmemFunction.N_PES);
  private static final MethodHandle ALIGN = link(NvshmemFunction.ALIGN);
  private static final MethodHandle FREE = link(NvshmemFunction.FREE);
  private static final MethodHandle PTR = link(NvshmemFunction.PTR);

  private static final @Nullable MethodHandle MODULE_INIT = ifThere(NvshmemFunction.MODULE_INIT);
  private static final @Nullable MethodHandle MODULE_FINALIZE =
      ifThere(NvshmemFunction.MODULE_FINALIZE);

  private NvshmemCalls() {}

  /** Fills an id. */
  static int uniqueId(long id) {
    try {
      return (int) GET_UNIQUE_ID.invokeExact(id);
    } catch (Throwable t) {
      throw NvshmemException.unexpected(t);
    }
  }

  /** Writes an id and the numbers of this rank into attributes, which refer to the id. */
  static int setUniqueIdArgs(int rank, int ranks, long id, long attributes) {
    try {
      return (int) SET_UNIQUE_ID_ARGS.invokeExact(rank, ranks, id, attributes);
    } catch (Throwable t) {
      throw NvshmemException.unexpected(t);
    }
  }

  /** Starts NVSHMEM with all ranks. */
  static int init(int flags, long attributes) {
    try {
      return (int) INIT.invokeExact(flags, attributes);
    } catch (Throwable t) {
      throw NvshmemException.unexpected(t);
    }
  }

  /** Ends NVSHMEM with all ranks. */
  static void finish() {
    try {
      FINALIZE.invokeExact();
    } catch (Throwable t) {
      throw NvshmemException.unexpected(t);
    }
  }

  /** This rank. */
  static int rank() {
    try {
      return (int) MY_PE.invokeExact();
    } catch (Throwable t) {
      throw NvshmemException.unexpected(t);
    }
  }

  /** Number of ranks. */
  static int ranks() {
    try {
      return (int) N_PES.invokeExact();
    } catch (Throwable t) {
      throw NvshmemException.unexpected(t);
    }
  }

  /** Allocates on all ranks; 0 on failure. */
  static long align(long alignment, long bytes) {
    try {
      return (long) ALIGN.invokeExact(alignment, bytes);
    } catch (Throwable t) {
      throw NvshmemException.unexpected(t);
    }
  }

  /** Frees on all ranks. */
  static void free(long address) {
    try {
      FREE.invokeExact(address);
    } catch (Throwable t) {
      throw NvshmemException.unexpected(t);
    }
  }

  /** Address of a rank's memory for this device; 0 if not accessible. */
  static long peer(long address, int rank) {
    try {
      return (long) PTR.invokeExact(address, rank);
    } catch (Throwable t) {
      throw NvshmemException.unexpected(t);
    }
  }

  /** Initialises the device library in a CUmodule. */
  static int moduleInit(long module) {
    MethodHandle handle = Objects.requireNonNull(MODULE_INIT, "NvshmemDevice checks it before");
    try {
      return (int) handle.invokeExact(module);
    } catch (Throwable t) {
      throw NvshmemException.unexpected(t);
    }
  }

  /** Finalises the device library in a CUmodule. */
  static int moduleFinish(long module) {
    MethodHandle handle =
        Objects.requireNonNull(MODULE_FINALIZE, "NvshmemDevice checks it before");
    try {
      return (int) handle.invokeExact(module);
    } catch (Throwable t) {
      throw NvshmemException.unexpected(t);
    }
  }

  private static @Nullable MethodHandle ifThere(NvshmemFunction function) {
    return NvshmemLibrary.has(function) ? link(function) : null;
  }

  private static MethodHandle link(NvshmemFunction function) {
    return Linker.nativeLinker()
        .downcallHandle(NvshmemLibrary.address(function), function.descriptor());
  }
}
