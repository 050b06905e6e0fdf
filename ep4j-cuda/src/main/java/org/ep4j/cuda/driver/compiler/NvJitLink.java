package org.ep4j.cuda.driver.compiler;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.driver.calls.LibrarySearch;
import org.ep4j.cuda.driver.calls.NativeStrings;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/**
 * A link in this process: intermediate code and binaries of several origins become one cubin. Used
 * by one thread: create, add, {@link #link}, close. Needs no device.
 */
public final class NvJitLink implements AutoCloseable {
  /** Environment variable with the path of the library or its directory. */
  public static final String LIBRARY_VARIABLE = "EP4J_NVJITLINK";

  /** Kinds of input. */
  public enum Input {
    /** A binary for one architecture. */
    CUBIN(1),
    /** Assembly text with a final zero. */
    PTX(2),
    /** Intermediate code of NVRTC or nvcc. */
    LTO_IR(3),
    /** Several binaries in one. */
    FATBIN(4),
    /** A host object with device code. */
    HOST_OBJECT(5),
    /** An archive of objects. */
    LIBRARY(6);

    private final int code;

    Input(int code) {
      this.code = code;
    }
  }

  private static final class Search {
    private static final LibrarySearch RESULT =
        NvJitLinkLibrary.name().isEmpty()
            ? LibrarySearch.failed(places().missing("nvJitLink"))
            : LibrarySearch.found(NvJitLinkLibrary.name());
  }

  private final Arena arena = Arena.ofConfined();
  private final MemorySegment handle = arena.allocate(ValueLayout.JAVA_LONG);
  private boolean closed;

  private NvJitLink() {}

  /** Whether nvJitLink is usable, with the reason if not; the first call loads it. */
  public static LibrarySearch find() {
    return Search.RESULT;
  }

  /** Version of nvJitLink. */
  public static CompilerVersion version() {
    find().require();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT, 2);
      int result = NvJitLinkCalls.version(out.address(), out.address() + Integer.BYTES);
      if (result != 0) {
        throw new CudaException("nvJitLinkVersion", result, "result " + result);
      }
      return new CompilerVersion(
          out.getAtIndex(ValueLayout.JAVA_INT, 0), out.getAtIndex(ValueLayout.JAVA_INT, 1));
    }
  }

  /**
   * A new link.
   *
   * @param options {@code -arch=sm_90a}, {@code -lto} for intermediate code
   */
  public static NvJitLink create(List<String> options) {
    find().require();
    NvJitLink link = new NvJitLink();
    int result =
        NvJitLinkCalls.create(
            link.handle.address(), options.size(), NativeStrings.array(link.arena, options));
    if (result != 0) {
      link.closed = true;
      link.arena.close();
      throw new CudaException(
          "nvJitLinkCreate", result, "result " + result + " for " + String.join(" ", options));
    }
    return link;
  }

  /** Adds an input; {@code name} appears in messages. */
  public void add(Input input, byte[] data, String name) {
    MemorySegment copy = arena.allocate(Math.max(1, data.length), 16);
    MemorySegment.copy(data, 0, copy, ValueLayout.JAVA_BYTE, 0, data.length);
    check(
        NvJitLinkCalls.addData(
            linker(), input.code, copy.address(), data.length, arena.allocateFrom(name).address()),
        "nvJitLinkAddData");
  }

  /** Links the inputs into a cubin. */
  public byte[] link() {
    check(NvJitLinkCalls.complete(linker()), "nvJitLinkComplete");
    MemorySegment size = arena.allocate(ValueLayout.JAVA_LONG);
    check(NvJitLinkCalls.cubinSize(linker(), size.address()), "nvJitLinkGetLinkedCubinSize");
    MemorySegment cubin = arena.allocate(size.get(ValueLayout.JAVA_LONG, 0), 16);
    check(NvJitLinkCalls.cubin(linker(), cubin.address()), "nvJitLinkGetLinkedCubin");
    return cubin.toArray(ValueLayout.JAVA_BYTE);
  }

  private void check(int result, String call) {
    if (result != 0) {
      throw new CudaException(call, result, "result " + result + ":\n" + errorLog());
    }
  }

  /** Output of the linker and its assembler, as the options requested. */
  public String infoLog() {
    return log(NvJitLinkCalls::infoLogSize, NvJitLinkCalls::infoLog);
  }

  private String errorLog() {
    return log(NvJitLinkCalls::errorLogSize, NvJitLinkCalls::errorLog);
  }

  /** A function of the library that writes through an address and returns a result code. */
  @FunctionalInterface
  private interface Getter {
    int get(long linker, long target);
  }

  private String log(Getter bytes, Getter text) {
    MemorySegment size = arena.allocate(ValueLayout.JAVA_LONG);
    if (bytes.get(linker(), size.address()) != 0) {
      return "no log";
    }
    MemorySegment log = arena.allocate(size.get(ValueLayout.JAVA_LONG, 0) + 1);
    return text.get(linker(), log.address()) == 0 ? log.getString(0).strip() : "no log";
  }

  private long linker() {
    if (closed) {
      throw new IllegalUseException(ErrorCode.CUDA_CLOSED, "the link is closed: create a new one");
    }
    return handle.get(ValueLayout.JAVA_LONG, 0);
  }

  /** Frees the link. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      int ignored = NvJitLinkCalls.destroy(handle.address());
      arena.close();
    }
  }

  /** Search locations of the library. */
  static ToolkitPaths places() {
    int driver = CudaDriver.find().found() ? CudaDriver.version() / 1000 : 0;
    return new ToolkitPaths(LIBRARY_VARIABLE, "libnvJitLink", driver, System.getenv());
  }
}
