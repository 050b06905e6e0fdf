package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.cuda.driver.calls.ModuleCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/** A kernel; valid as long as its module. */
public final class Kernel {
  private final CudaModule module;
  private final String name;
  private final long handle;
  private final int registers;
  private final int localBytes;
  private final int staticSharedBytes;
  private final int maxThreadsPerBlock;
  private final int binaryVersion;

  /** Loads the kernel eagerly: a lazy load at the first launch may wait for running kernels. */
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

  /** Name in the module. */
  public String name() {
    return name;
  }

  /** Module of the kernel. */
  public CudaModule module() {
    return module;
  }

  /** The CUfunction. */
  public long handle() {
    module.checkOpen();
    return handle;
  }

  /** Registers per thread. */
  public int registers() {
    return registers;
  }

  /** Local memory per thread: spilled registers and arrays that are not in registers. */
  public int localBytes() {
    return localBytes;
  }

  /** Shared memory of a block that the source fixes. */
  public int staticSharedBytes() {
    return staticSharedBytes;
  }

  /** Largest number of threads of a block. */
  public int maxThreadsPerBlock() {
    return maxThreadsPerBlock;
  }

  /** Architecture of the binary: 10 * major + minor. */
  public int binaryVersion() {
    return binaryVersion;
  }

  /** Allows launches with up to {@code bytes} of dynamic shared memory; required above 48 KiB. */
  public void setMaxDynamicSharedBytes(int bytes) {
    int limit = module.device().properties().sharedBytesPerBlock() - staticSharedBytes;
    if (bytes > limit) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_SHARED_MEMORY,
          "dynamic shared memory of " + name,
          bytes + " bytes",
          "at most " + limit + " on " + module.device(),
          "use fewer stages");
    }
    set(DriverConstants.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
  }

  /** Resident blocks of this kernel per SM. */
  public int maxActiveBlocksPerSm(int blockThreads, long dynamicSharedBytes) {
    try (var _ = module.device().enter()) {
      return ModuleCalls.maxActiveBlocks(handle(), blockThreads, dynamicSharedBytes);
    }
  }

  /**
   * Sizes of the parameters in order, as compiled; empty if the driver is older than CUDA 12.4 and
   * does not report them.
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
