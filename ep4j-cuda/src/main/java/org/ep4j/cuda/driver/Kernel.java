package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.InvalidArgumentException;

/** A kernel; it lives as long as its module. */
public final class Kernel {
  private final CudaModule module;
  private final String name;
  private final long handle;
  private final int registers;
  private final int localBytes;
  private final int staticSharedBytes;
  private final int maxThreadsPerBlock;
  private final int binaryVersion;

  /** Loads the kernel now: at its first launch the driver might wait for work that runs. */
  Kernel(CudaModule module, String name, long handle) {
    this.module = module;
    this.name = name;
    this.handle = handle;
    ModuleCalls.finishLoading(handle);
    this.registers = ModuleCalls.attribute(DriverConstants.CU_FUNC_ATTRIBUTE_NUM_REGS, handle);
    this.localBytes =
        ModuleCalls.attribute(DriverConstants.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, handle);
    this.staticSharedBytes =
        ModuleCalls.attribute(DriverConstants.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, handle);
    this.maxThreadsPerBlock =
        ModuleCalls.attribute(DriverConstants.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, handle);
    this.binaryVersion =
        ModuleCalls.attribute(DriverConstants.CU_FUNC_ATTRIBUTE_BINARY_VERSION, handle);
  }

  /** Its name in the module. */
  public String name() {
    return name;
  }

  /** The module that it lives in. */
  public CudaModule module() {
    return module;
  }

  /** The CUfunction. */
  public long handle() {
    module.checkOpen();
    return handle;
  }

  /** Registers of a thread. */
  public int registers() {
    return registers;
  }

  /** Local memory of a thread: spilled registers and arrays that are no registers. */
  public int localBytes() {
    return localBytes;
  }

  /** Shared memory of a block whose size is fixed by the source. */
  public int staticSharedBytes() {
    return staticSharedBytes;
  }

  /** Most threads that a block can have. */
  public int maxThreadsPerBlock() {
    return maxThreadsPerBlock;
  }

  /** Architecture it was compiled for: 10 * major + minor. */
  public int binaryVersion() {
    return binaryVersion;
  }

  /** Allows launches with up to this much dynamic shared memory; above 48 KiB that is needed. */
  public void setMaxDynamicSharedBytes(int bytes) {
    int limit = module.device().properties().sharedBytesPerBlock() - staticSharedBytes;
    if (bytes > limit) {
      throw new InvalidArgumentException(
          "dynamic shared memory of " + name,
          bytes + " bytes",
          "at most " + limit + " on " + module.device(),
          "use fewer stages");
    }
    set(DriverConstants.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
  }

  /** Blocks of this kernel that an SM holds at once. */
  public int maxActiveBlocksPerSm(int blockThreads, long dynamicSharedBytes) {
    try (var _ = module.device().enter()) {
      return ModuleCalls.maxActiveBlocks(handle(), blockThreads, dynamicSharedBytes);
    }
  }

  /**
   * Sizes of the parameters, in order, as the kernel was compiled; empty where the driver is older
   * than CUDA 12.4 and does not say.
   */
  public List<Integer> parameterBytes() {
    List<Integer> sizes = new ArrayList<>();
    if (!ModuleCalls.knowsParameters()) {
      return sizes;
    }
    try (var _ = module.device().enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG, 2);
      while (ModuleCalls.parameterInfo(
              handle(), sizes.size(), out.address(), out.address() + Long.BYTES)
          == DriverConstants.CUDA_SUCCESS) {
        sizes.add((int) out.getAtIndex(ValueLayout.JAVA_LONG, 1));
      }
    }
    return sizes;
  }

  private void set(int attribute, int value) {
    try (var _ = module.device().enter()) {
      ModuleCalls.setAttribute(handle(), attribute, value);
    }
  }

  @Override
  public String toString() {
    return name
        + " ("
        + registers
        + " registers, "
        + localBytes
        + " bytes local, "
        + staticSharedBytes
        + " bytes shared)";
  }
}
