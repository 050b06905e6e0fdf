package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.cuda.driver.calls.DriverFunction;
import org.ep4j.cuda.driver.calls.ModuleCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/** Compiled kernels and variables, loaded onto a device. */
public final class CudaModule implements AutoCloseable {
  private static final int LOG_BYTES = 16 << 10;

  /**
   * A variable of a module.
   *
   * @param address device address
   * @param bytes size
   */
  public record Global(long address, long bytes) {}

  private final CudaDevice device;
  private final String name;
  private final long handle;
  private boolean closed;

  private CudaModule(CudaDevice device, String name, long handle) {
    this.device = device;
    this.name = name;
    this.handle = handle;
  }

  /**
   * Loads a cubin.
   *
   * @param name name in messages
   * @throws CudaException if the device cannot run the cubin; the message names its architecture
   */
  public static CudaModule load(CudaDevice device, byte[] cubin, String name) {
    try (var _ = device.enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment image = arena.allocate(cubin.length, 16);
      MemorySegment.copy(cubin, 0, image, ValueLayout.JAVA_BYTE, 0, cubin.length);
      MemorySegment log = arena.allocate(LOG_BYTES);
      MemorySegment options =
          arena.allocateFrom(
              ValueLayout.JAVA_INT,
              DriverConstants.CU_JIT_ERROR_LOG_BUFFER,
              DriverConstants.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
      MemorySegment values =
          arena.allocateFrom(ValueLayout.JAVA_LONG, log.address(), (long) LOG_BYTES);
      MemorySegment module = arena.allocate(ValueLayout.JAVA_LONG);
      int result =
          ModuleCalls.load(
              module.address(), image.address(), 2, options.address(), values.address());
      if (result != DriverConstants.CUDA_SUCCESS) {
        throw MissingMemory.ofDevice(
            CudaException.of(
                result, DriverFunction.MODULE_LOAD_DATA_EX, explain(device, name, result, log)),
            device,
            "a module of " + cubin.length + " bytes");
      }
      return new CudaModule(device, name, module.get(ValueLayout.JAVA_LONG, 0));
    }
  }

  private static String explain(CudaDevice device, String name, int result, MemorySegment log) {
    String text = "loading " + name + " on " + device + ", which runs " + device.architecture();
    if (result == DriverConstants.CUDA_ERROR_NO_BINARY_FOR_GPU) {
      text += ": it was compiled for another architecture, or by a CUDA newer than the driver's";
    }
    String words = log.getString(0).strip();
    return words.isEmpty() ? text : text + ": " + words;
  }

  /**
   * A kernel of the module, completely loaded when this method returns.
   *
   * @param entry name of the kernel; the mangled name unless the kernel is {@code extern "C"}
   */
  public Kernel kernel(String entry) {
    try (var _ = device.enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment function = arena.allocate(ValueLayout.JAVA_LONG);
      int result =
          ModuleCalls.function(function.address(), handle(), arena.allocateFrom(entry).address());
      if (result != DriverConstants.CUDA_SUCCESS) {
        throw CudaException.of(
            result, DriverFunction.MODULE_GET_FUNCTION, "looking for " + entry + " in " + name);
      }
      return new Kernel(this, entry, function.get(ValueLayout.JAVA_LONG, 0));
    }
  }

  /** A {@code __device__} or {@code __constant__} variable. */
  public Global global(String variable) {
    try (var _ = device.enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG, 2);
      int result =
          ModuleCalls.global(
              out.address(),
              out.address() + Long.BYTES,
              handle(),
              arena.allocateFrom(variable).address());
      if (result != DriverConstants.CUDA_SUCCESS) {
        throw CudaException.of(
            result, DriverFunction.MODULE_GET_GLOBAL, "looking for " + variable + " in " + name);
      }
      return new Global(
          out.getAtIndex(ValueLayout.JAVA_LONG, 0), out.getAtIndex(ValueLayout.JAVA_LONG, 1));
    }
  }

  /** The CUmodule. */
  public long handle() {
    checkOpen();
    return handle;
  }

  /** Device of the module. */
  public CudaDevice device() {
    return device;
  }

  /** Name in messages. */
  public String name() {
    return name;
  }

  void checkOpen() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "module " + name + " is closed: create a new one");
    }
  }

  /** Unloads the module and all its kernels. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      device.giveBack(() -> ModuleCalls.unload(handle));
    }
  }
}
