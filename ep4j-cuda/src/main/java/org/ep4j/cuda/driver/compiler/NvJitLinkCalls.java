package org.ep4j.cuda.driver.compiler;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.ep4j.cuda.driver.calls.CudaException;

/**
 * Binding of nvJitLink. Every method returns the library's result code; {@link NvJitLink} checks
 * it.
 */
@SuppressWarnings("restricted") // links native functions
final class NvJitLinkCalls {
  private static final MethodHandle VERSION =
      link("nvJitLinkVersion", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final MethodHandle CREATE =
      link(
          "nvJitLinkCreate",
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG);
  private static final MethodHandle DESTROY =
      link("nvJitLinkDestroy", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG);
  private static final MethodHandle ADD_DATA =
      link(
          "nvJitLinkAddData",
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG);
  private static final MethodHandle COMPLETE =
      link("nvJitLinkComplete", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_LINKED_CUBIN_SIZE =
      link(
          "nvJitLinkGetLinkedCubinSize",
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_LINKED_CUBIN =
      link(
          "nvJitLinkGetLinkedCubin",
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_INFO_LOG_SIZE =
      link(
          "nvJitLinkGetInfoLogSize",
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_INFO_LOG =
      link(
          "nvJitLinkGetInfoLog",
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_ERROR_LOG_SIZE =
      link(
          "nvJitLinkGetErrorLogSize",
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG);
  private static final MethodHandle GET_ERROR_LOG =
      link(
          "nvJitLinkGetErrorLog",
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG);

  private NvJitLinkCalls() {}

  /** Writes two ints. */
  static int version(long major, long minor) {
    try {
      return (int) VERSION.invokeExact(major, minor);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes a linker; {@code options} is an array of strings. */
  static int create(long linker, int optionCount, long options) {
    try {
      return (int) CREATE.invokeExact(linker, optionCount, options);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Destroys the linker at an address. */
  static int destroy(long linker) {
    try {
      return (int) DESTROY.invokeExact(linker);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Adds an input. */
  static int addData(long linker, int type, long data, long bytes, long name) {
    try {
      return (int) ADD_DATA.invokeExact(linker, type, data, bytes, name);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Links. */
  static int complete(long linker) {
    try {
      return (int) COMPLETE.invokeExact(linker);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the size. */
  static int cubinSize(long linker, long size) {
    try {
      return (int) GET_LINKED_CUBIN_SIZE.invokeExact(linker, size);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the cubin. */
  static int cubin(long linker, long target) {
    try {
      return (int) GET_LINKED_CUBIN.invokeExact(linker, target);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the size, with the final zero. */
  static int errorLogSize(long linker, long size) {
    try {
      return (int) GET_ERROR_LOG_SIZE.invokeExact(linker, size);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the log. */
  static int errorLog(long linker, long target) {
    try {
      return (int) GET_ERROR_LOG.invokeExact(linker, target);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the size, with the final zero. */
  static int infoLogSize(long linker, long size) {
    try {
      return (int) GET_INFO_LOG_SIZE.invokeExact(linker, size);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the log. */
  static int infoLog(long linker, long target) {
    try {
      return (int) GET_INFO_LOG.invokeExact(linker, target);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  private static MethodHandle link(String symbol, MemoryLayout result, MemoryLayout... parameters) {
    return Linker.nativeLinker()
        .downcallHandle(
            NvJitLinkLibrary.address(symbol), FunctionDescriptor.of(result, parameters));
  }
}
