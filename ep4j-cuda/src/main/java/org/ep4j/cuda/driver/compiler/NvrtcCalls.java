package org.ep4j.cuda.driver.compiler;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.ep4j.cuda.driver.calls.CudaException;

/** Binding of NVRTC. Every method returns the library's result code; {@link Nvrtc} checks it. */
@SuppressWarnings("restricted") // links native functions
final class NvrtcCalls {
  private static final MethodHandle GET_ERROR_STRING =
      link("nvrtcGetErrorString", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT);
  private static final MethodHandle VERSION =
      link("nvrtcVersion", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_NUM_SUPPORTED_ARCHS =
      link("nvrtcGetNumSupportedArchs", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_SUPPORTED_ARCHS =
      link("nvrtcGetSupportedArchs", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG);
  private static final MethodHandle CREATE_PROGRAM =
      link(
          "nvrtcCreateProgram",
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG);
  private static final MethodHandle DESTROY_PROGRAM =
      link("nvrtcDestroyProgram", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG);
  private static final MethodHandle COMPILE_PROGRAM =
      link(
          "nvrtcCompileProgram",
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_PROGRAM_LOG_SIZE =
      link(
          "nvrtcGetProgramLogSize",
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_PROGRAM_LOG =
      link(
          "nvrtcGetProgramLog", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_CUBIN_SIZE =
      link("nvrtcGetCUBINSize", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_CUBIN =
      link("nvrtcGetCUBIN", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_PTX_SIZE =
      link("nvrtcGetPTXSize", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_PTX =
      link("nvrtcGetPTX", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_LTO_IR_SIZE =
      link("nvrtcGetLTOIRSize", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_LTO_IR =
      link("nvrtcGetLTOIR", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);

  private NvrtcCalls() {}

  /** Address of the text for a result. */
  static long errorString(int result) {
    try {
      return (long) GET_ERROR_STRING.invokeExact(result);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes two ints. */
  static int version(long major, long minor) {
    try {
      return (int) VERSION.invokeExact(major, minor);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes an int. */
  static int architectureCount(long count) {
    try {
      return (int) GET_NUM_SUPPORTED_ARCHS.invokeExact(count);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes that many ints. */
  static int architectures(long architectures) {
    try {
      return (int) GET_SUPPORTED_ARCHS.invokeExact(architectures);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes a program; headers are passed by text and include name. */
  static int createProgram(
      long program, long source, long name, int headerCount, long headers, long includeNames) {
    try {
      return (int)
          CREATE_PROGRAM.invokeExact(program, source, name, headerCount, headers, includeNames);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Destroys the program at an address. */
  static int destroyProgram(long program) {
    try {
      return (int) DESTROY_PROGRAM.invokeExact(program);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Compiles; {@code options} is an array of strings. */
  static int compileProgram(long program, int optionCount, long options) {
    try {
      return (int) COMPILE_PROGRAM.invokeExact(program, optionCount, options);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the size, with the final zero. */
  static int logSize(long program, long size) {
    try {
      return (int) GET_PROGRAM_LOG_SIZE.invokeExact(program, size);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the log. */
  static int log(long program, long log) {
    try {
      return (int) GET_PROGRAM_LOG.invokeExact(program, log);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the size. */
  static int cubinSize(long program, long size) {
    try {
      return (int) GET_CUBIN_SIZE.invokeExact(program, size);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the cubin. */
  static int cubin(long program, long target) {
    try {
      return (int) GET_CUBIN.invokeExact(program, target);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the size, with the final zero. */
  static int ptxSize(long program, long size) {
    try {
      return (int) GET_PTX_SIZE.invokeExact(program, size);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the PTX. */
  static int ptx(long program, long target) {
    try {
      return (int) GET_PTX.invokeExact(program, target);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the size. */
  static int ltoIrSize(long program, long size) {
    try {
      return (int) GET_LTO_IR_SIZE.invokeExact(program, size);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the intermediate code for nvJitLink. */
  static int ltoIr(long program, long target) {
    try {
      return (int) GET_LTO_IR.invokeExact(program, target);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  private static MethodHandle link(String symbol, MemoryLayout result, MemoryLayout... parameters) {
    return Linker.nativeLinker()
        .downcallHandle(NvrtcLibrary.address(symbol), FunctionDescriptor.of(result, parameters));
  }
}
