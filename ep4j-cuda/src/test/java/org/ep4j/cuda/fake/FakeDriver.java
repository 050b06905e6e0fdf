package org.ep4j.cuda.fake;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.ep4j.conformance.world.HostCompiler;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.jit.FakeCubins;

/**
 * The fake CUDA driver of this process: what the engine called, what is alive, and what the driver
 * shall do next. It is no GPU: kernels do not run, but {@link FakeKernels} lets a launch write
 * words. Only processes whose variable {@code EP4J_CUDA_DRIVER} names it have it; Maven starts one
 * for the tests of this package.
 */
public final class FakeDriver {
  /** The file that the variable of the process names. */
  private static final String LIBRARY = "libfake_driver.so";

  private static final List<String> SOURCES =
      List.of("fake_driver.cpp", "recorder.hpp", "fabric.hpp");

  /** Results of the driver for misuse, which only a defect of the engine causes. */
  private static final List<Integer> MISUSE = List.of(1, 201, 400, 500, 900);

  /**
   * A call of the driver.
   *
   * @param function exported name
   * @param result result code
   * @param arguments as in the fake's source: inputs, then the handle that the call created
   */
  public record Call(String function, int result, List<Long> arguments) {
    long argument(int index) {
      return arguments.get(index);
    }
  }

  /** The kinds of objects that the driver creates, in the order of the fake's source. */
  public enum Kind {
    CONTEXT,
    DEVICE_MEMORY,
    HOST_MEMORY,
    REGISTERED,
    STREAM,
    EVENT,
    GRAPH,
    GRAPH_EXEC,
    MODULE,
    ADDRESSES,
    HANDLE,
    MAPPING
  }

  /** Memory of the driver; {@code bytes} is 0 if an address is in none. */
  public record Range(long start, long bytes) {}

  private FakeDriver() {}

  /** Whether the driver of this process is the fake. */
  public static boolean isSelected() {
    return path().endsWith(LIBRARY);
  }

  private static String path() {
    return System.getenv().getOrDefault(CudaDriver.LIBRARY_VARIABLE, "");
  }

  /**
   * Skips the tests unless this process has the fake; builds the library and stores fake cubins.
   */
  static void require() {
    assumeTrue(isSelected(), "only the Surefire execution fake-driver has the fake driver");
    HostCompiler.require("to build the fake driver");
    try {
      build(Path.of(path()));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
    FakeCubins.store();
  }

  private static void build(Path library) throws IOException, InterruptedException {
    Path directory = Objects.requireNonNull(library.getParent());
    Files.createDirectories(directory);
    boolean built = Files.exists(library);
    for (String name : SOURCES) {
      Path file = directory.resolve(name);
      String text = source(name);
      built &= Files.exists(file) && Files.readString(file).equals(text);
      Files.writeString(file, text);
    }
    if (!built) {
      HostCompiler.compile(
          directory.resolve(SOURCES.getFirst()), library, "-std=c++20", "-O1", "-shared", "-fPIC");
    }
  }

  private static String source(String name) throws IOException {
    try (InputStream in = FakeDriver.class.getResourceAsStream(name)) {
      return new String(Objects.requireNonNull(in, name).readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  /** Forgets all calls, rules and objects. */
  static void reset() {
    FakeCalls.reset();
  }

  /** Forgets the calls so far. */
  static void forgetCalls() {
    FakeCalls.forgetCalls();
  }

  /** Whether calls are recorded. Unrecorded calls allocate nothing. */
  public static void record(boolean on) {
    FakeCalls.record(on ? 1 : 0);
  }

  /** The calls so far. */
  public static List<Call> calls() {
    List<Call> calls = new ArrayList<>();
    for (long[] call : FakeCalls.calls()) {
      calls.add(
          new Call(
              FakeCalls.text(call[0]),
              (int) call[1],
              Arrays.stream(call).skip(2).boxed().toList()));
    }
    return calls;
  }

  /** The calls of one function so far. */
  public static List<Call> calls(String function) {
    return calls().stream().filter(call -> call.function().equals(function)).toList();
  }

  /** Calls that the driver refused though no test asked for it. */
  static List<Call> misuse() {
    return calls().stream().filter(call -> MISUSE.contains(call.result())).toList();
  }

  /** The objects that are created and not released. */
  public static List<Kind> live() {
    return Arrays.stream(FakeCalls.live()).map(FakeDriver::kind).toList();
  }

  /** Bytes of the memory of some kinds that is allocated and not released. */
  public static long liveBytes(Kind... kinds) {
    List<Kind> counted = List.of(kinds);
    return Arrays.stream(FakeCalls.live())
        .filter(object -> counted.contains(kind(object)))
        .mapToLong(object -> memory(object[1]).bytes())
        .sum();
  }

  private static Kind kind(long[] object) {
    return Kind.values()[(int) object[0]];
  }

  /** The memory of the driver that holds an address. */
  public static Range memory(long address) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG, 2);
      FakeCalls.memory(address, out.address());
      return new Range(
          out.getAtIndex(ValueLayout.JAVA_LONG, 0), out.getAtIndex(ValueLayout.JAVA_LONG, 1));
    }
  }

  /** Makes the call number {@code nth} from now on fail without an effect. */
  public static void failCall(int nth, int code) {
    failCall("", nth, code);
  }

  /** Makes the call number {@code nth} of a function from now on fail without an effect. */
  public static void failCall(String function, int nth, int code) {
    try (Arena arena = Arena.ofConfined()) {
      FakeCalls.fail(arena.allocateFrom(function).address(), nth, code);
    }
  }

  /** Puts both devices into an NVLink domain that hosts may share. */
  static void joinDomain() {
    cluster(0, 1);
    cluster(1, 1);
  }

  /** Sets the NVLink cluster of a device; 0: it has none but that of its host. */
  static void cluster(int device, int cluster) {
    FakeCalls.cluster(device, cluster);
  }

  /** Sets what NVML reports of the devices' registration with their NVLink fabric. */
  static void registration(int state, int status) {
    FakeCalls.registration(state, status);
  }

  /** Holds back all work of streams from now on. */
  public static void hold() {
    FakeCalls.hold(1);
  }

  /** Runs the work that was held back. */
  public static void release() {
    FakeCalls.hold(0);
  }
}
