package org.ep4j.cuda.driver.compiler;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.driver.calls.LibrarySearch;
import org.ep4j.cuda.driver.calls.NativeStrings;

/** The compiler of CUDA C++ in this process. Needs no device. The first call opens the library. */
public final class Nvrtc {
  /** Environment variable with the path of the library or its directory. */
  public static final String LIBRARY_VARIABLE = "EP4J_NVRTC";

  /** Result of a compilation. */
  public enum Output {
    /** A binary for one architecture. */
    CUBIN,
    /** Assembly text. */
    PTX,
    /** Intermediate code for {@link NvJitLink}; needs the option {@code -dlto}. */
    LTO_IR
  }

  /**
   * Output of a compilation.
   *
   * @param image the binary, or the text with a final zero
   * @param log warnings and requested output; often empty
   */
  public record Result(byte[] image, String log) {}

  private static final class Search {
    private static final LibrarySearch RESULT =
        NvrtcLibrary.name().isEmpty()
            ? LibrarySearch.failed(places().missing("NVRTC"))
            : LibrarySearch.found(NvrtcLibrary.name());
  }

  private Nvrtc() {}

  /** Whether NVRTC is usable, with the reason if not; the first call loads it. */
  public static LibrarySearch find() {
    return Search.RESULT;
  }

  /** Version of NVRTC. */
  public static CompilerVersion version() {
    find().require();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT, 2);
      check(NvrtcCalls.version(out.address(), out.address() + Integer.BYTES), "nvrtcVersion");
      return new CompilerVersion(
          out.getAtIndex(ValueLayout.JAVA_INT, 0), out.getAtIndex(ValueLayout.JAVA_INT, 1));
    }
  }

  /** Supported architectures: 80, 90, 100. */
  public static List<Integer> architectures() {
    find().require();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment count = arena.allocate(ValueLayout.JAVA_INT);
      check(NvrtcCalls.architectureCount(count.address()), "nvrtcGetNumSupportedArchs");
      int number = count.get(ValueLayout.JAVA_INT, 0);
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT, Math.max(1, number));
      check(NvrtcCalls.architectures(out.address()), "nvrtcGetSupportedArchs");
      List<Integer> found = new ArrayList<>();
      for (int i = 0; i < number; i++) {
        found.add(out.getAtIndex(ValueLayout.JAVA_INT, i));
      }
      return found;
    }
  }

  /**
   * Compiles a program.
   *
   * @param name of the program in messages
   * @param headers text by include name
   * @param options compiler options; a cubin needs {@code -arch=sm_90a} or similar
   * @throws CudaException with the compiler's log if the source is wrong
   */
  public static Result compile(
      String name,
      String source,
      Map<String, String> headers,
      List<String> options,
      Output output) {
    find().require();
    return RunningCompilations.run(
        "nvrtcCompileProgram", () -> compiled(name, source, headers, options, output));
  }

  private static Result compiled(
      String name,
      String source,
      Map<String, String> headers,
      List<String> options,
      Output output) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment handle = arena.allocate(ValueLayout.JAVA_LONG);
      List<String> names = List.copyOf(headers.keySet());
      List<String> texts = names.stream().map(headers::get).toList();
      check(
          NvrtcCalls.createProgram(
              handle.address(),
              arena.allocateFrom(source).address(),
              arena.allocateFrom(name).address(),
              names.size(),
              NativeStrings.array(arena, texts),
              NativeStrings.array(arena, names)),
          "nvrtcCreateProgram");
      try {
        return compile(arena, handle.get(ValueLayout.JAVA_LONG, 0), name, options, output);
      } finally {
        int ignored = NvrtcCalls.destroyProgram(handle.address());
      }
    }
  }

  private static Result compile(
      Arena arena, long program, String name, List<String> options, Output output) {
    int result =
        NvrtcCalls.compileProgram(program, options.size(), NativeStrings.array(arena, options));
    String log = log(arena, program);
    if (result != 0) {
      throw new CudaException(
          "nvrtcCompileProgram",
          result,
          text(result)
              + ", compiling "
              + name
              + " with "
              + String.join(" ", options)
              + (log.isEmpty() ? "" : ":\n" + log));
    }
    return new Result(image(arena, program, output), log);
  }

  private static byte[] image(Arena arena, long program, Output output) {
    MemorySegment size = arena.allocate(ValueLayout.JAVA_LONG);
    String call = "nvrtcGet" + output;
    check(
        switch (output) {
          case CUBIN -> NvrtcCalls.cubinSize(program, size.address());
          case PTX -> NvrtcCalls.ptxSize(program, size.address());
          case LTO_IR -> NvrtcCalls.ltoIrSize(program, size.address());
        },
        call + "Size");
    long bytes = size.get(ValueLayout.JAVA_LONG, 0);
    if (bytes == 0) {
      throw new CudaException(
          call, 0, "the program has no such output: a cubin needs -arch=sm_…, LTO_IR needs -dlto");
    }
    MemorySegment image = arena.allocate(bytes, 16);
    check(
        switch (output) {
          case CUBIN -> NvrtcCalls.cubin(program, image.address());
          case PTX -> NvrtcCalls.ptx(program, image.address());
          case LTO_IR -> NvrtcCalls.ltoIr(program, image.address());
        },
        call);
    return image.toArray(ValueLayout.JAVA_BYTE);
  }

  private static String log(Arena arena, long program) {
    MemorySegment size = arena.allocate(ValueLayout.JAVA_LONG);
    check(NvrtcCalls.logSize(program, size.address()), "nvrtcGetProgramLogSize");
    long bytes = size.get(ValueLayout.JAVA_LONG, 0);
    MemorySegment log = arena.allocate(bytes + 1);
    check(NvrtcCalls.log(program, log.address()), "nvrtcGetProgramLog");
    return log.getString(0).strip();
  }

  private static void check(int result, String call) {
    if (result != 0) {
      throw new CudaException(call, result, text(result));
    }
  }

  private static String text(int result) {
    return NativeStrings.read(NvrtcCalls.errorString(result)) + " (" + result + ")";
  }

  /** Search locations of the library. */
  static ToolkitPaths places() {
    int driver = CudaDriver.find().found() ? CudaDriver.version() / 1000 : 0;
    return new ToolkitPaths(LIBRARY_VARIABLE, "libnvrtc", driver, System.getenv());
  }
}
