package org.ep4j.nvshmem;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.List;
import org.ep4j.cuda.backend.BackendLibrary;
import org.ep4j.cuda.driver.calls.NativeEnvironment;
import org.ep4j.cuda.driver.calls.SharedLibrary;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.jspecify.annotations.Nullable;

/** The host library, opened when this class is initialised; stays open until the process ends. */
@SuppressWarnings("restricted") // links native functions
final class NvshmemLibrary {
  private static final @Nullable SymbolLookup SYMBOLS;

  /** Name or path of the library; empty if there is none. */
  private static final String NAME;

  static {
    // Multicast over NVLink is not used. NvshmemNetwork decides on the network.
    NativeEnvironment.setDefault("NVSHMEM_DISABLE_NVLS", "1");
    // Collectives are not used either; NVSHMEM would start several NCCL communicators for them.
    NativeEnvironment.setDefault("NVSHMEM_DISABLE_NCCL", "1");
    NAME = SharedLibrary.first(places().candidates());
    SYMBOLS = NAME.isEmpty() ? null : SharedLibrary.open(NAME);
  }

  private NvshmemLibrary() {}

  static BackendLibrary places() {
    return new BackendLibrary(
        "libnvshmem_host.so.3",
        "EP4J_NVSHMEM_HOME",
        List.of("NVSHMEM_HOME", "NVSHMEM_DIR"),
        "NVSHMEM 3 (package libnvshmem3-cuda-13 of NVIDIA, or nvidia-nvshmem-cu13 of Python)",
        System.getenv());
  }

  /** Name or path of the library; empty if there is none. */
  static String name() {
    return NAME;
  }

  /** Major, minor and patch version; zeros if not reported. */
  static int[] version() {
    if (!has(NvshmemFunction.VERSION)) {
      return new int[3];
    }
    MethodHandle handle =
        Linker.nativeLinker()
            .downcallHandle(address(NvshmemFunction.VERSION), NvshmemFunction.VERSION.descriptor());
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT, 3);
      handle.invokeExact(
          out.address(), out.address() + Integer.BYTES, out.address() + 2 * Integer.BYTES);
      return out.toArray(ValueLayout.JAVA_INT);
    } catch (Throwable t) {
      throw NvshmemException.unexpected(t);
    }
  }

  /** Whether the library has a function. */
  static boolean has(NvshmemFunction function) {
    return SYMBOLS != null && SYMBOLS.find(function.symbol()).isPresent();
  }

  /** Address of a function. */
  static MemorySegment address(NvshmemFunction function) {
    if (SYMBOLS == null) {
      throw new IllegalUseException(
          ErrorCode.NATIVE_LIBRARY_NOT_LOADED,
          "NVSHMEM is not loaded: the probe reports the reason");
    }
    return SYMBOLS
        .find(function.symbol())
        .orElseThrow(
            () ->
                new EngineUnavailableException(
                    ErrorCode.NATIVE_FUNCTION_MISSING,
                    NAME + " has no " + function.symbol() + ": install a newer version"));
  }
}
