package org.ep4j.engine.host.buffer;

import static java.util.Objects.requireNonNull;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.ep4j.Dispatch;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.config.WireName;
import org.ep4j.error.Ep4jException;
import org.ep4j.group.Group;
import org.ep4j.group.TcpWorld;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.Wires;
import org.jspecify.annotations.Nullable;

/**
 * Program of two ranks that share memory in a small file system, which something else fills
 * meanwhile. Prints what rank 0 sees. Experts are native code ({@code memset}): a page that the
 * system cannot provide would end the process.
 */
@SuppressWarnings("restricted") // calls memset, in the place of native experts
final class FullSharedMemory {
  /** In front of the name of a scenario. */
  static final String HEADING = "scenario ";

  private static final int HIDDEN = 7168;
  private static final long ROW_BYTES = 2L * HIDDEN;
  private static final int RANKS = 2;
  private static final Duration TIMEOUT = Duration.ofSeconds(20);
  private static final CyclicBarrier BOTH = new CyclicBarrier(RANKS);
  private static final Path FILLER =
      Path.of(System.getenv().getOrDefault("EP4J_SHM_DIR", ""), "filler").toAbsolutePath();

  private FullSharedMemory() {}

  /** Runs the scenarios one after the other, and prints the name of each before its lines. */
  public static void main(String[] scenarios) throws Exception {
    for (String scenario : scenarios) {
      System.out.println(HEADING + scenario);
      try (TcpWorld world = new TcpWorld(RANKS)) {
        List<Group> groups = world.joinAll();
        TcpWorld.inEach(groups, group -> run(scenario, group));
      }
    }
  }

  private static void run(String scenario, Group group) throws Exception {
    switch (scenario) {
      case "open" -> open(group);
      case "combine" -> highThroughput(group);
      case "padding" -> padding(group);
      case "unused" -> unused(group);
      case "wire" -> wire(group);
      case "lowLatency" -> lowLatency(group);
      case "rowLengths" -> rowLengths(group);
      case "reset" -> reset(group);
      default -> throw new IllegalArgumentException(scenario);
    }
  }

  private static BufferConfig.Builder config() {
    return BufferConfig.builder().hidden(HIDDEN).experts(RANKS).topK(1).timeout(TIMEOUT);
  }

  private static void say(Group group, @Nullable String text) {
    if (group.rank() == 0) {
      System.out.println(text);
    }
  }

  /** The batch of the report: 57 MiB of received rows fit, as many rows to combine do not. */
  private static void open(Group group) {
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config().highThroughput(1000).build())) {
      say(group, "opened " + buffer);
    } catch (Ep4jException e) {
      say(group, e.getMessage());
    }
  }

  private static void highThroughput(Group group) throws Exception {
    int tokens = 400;
    try (Arena arena = Arena.ofShared();
        ExpertBuffer buffer = ExpertBuffer.open(group, config().highThroughput(tokens).build())) {
      Dispatch received = dispatch(arena, buffer, tokens);
      fill(group);
      try {
        set(received.combineInput(DType.BF16).segment(), received.rows() * ROW_BYTES);
        say(group, "written");
      } catch (Ep4jException e) {
        say(group, e.getMessage());
      }
      free(group);
      Tensor rows = received.combineInput(DType.BF16).rows(0, received.rows());
      set(rows.segment(), received.rows() * ROW_BYTES);
      say(group, "combined " + buffer.combine(rows, received.handle()).x().getFloat(0));
    }
  }

  /** Padding rows fill some pages, and no peer writes the factors of these rows. */
  private static void padding(Group group) throws Exception {
    int tokens = 8;
    int padded = 4096;
    int hidden = 128;
    HighThroughputConfig kind =
        HighThroughputConfig.builder()
            .maxTokens(tokens)
            .expertAlignment(padded)
            .layouts(Layout.EXPERT_MAJOR)
            .build();
    BufferConfig config = config().hidden(hidden).highThroughput(kind).build();
    try (Arena arena = Arena.ofShared();
        ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      Tensor x = Tensor.allocate(arena, DType.NVFP4, tokens, hidden);
      Tensor factors = Tensor.allocate(arena, DType.FP32, tokens);
      GroupedDispatch received =
          buffer.dispatchGrouped(
              new Tokens(x, null, factors),
              Routing.of(ids(arena, group.rank(), tokens)),
              DispatchOptions.builder().expertAlignment(padded).build());
      fill(group);
      try {
        set(received.globalScales().segment(), 4L * padded);
        say(group, "written");
      } catch (Ep4jException e) {
        say(group, e.getMessage());
      }
      free(group);
      set(received.globalScales().segment(), 4L * padded);
      say(group, "written");
    }
  }

  /** Of 400 rows, peers write one. */
  private static void unused(Group group) throws Exception {
    int tokens = 400;
    try (Arena arena = Arena.ofShared();
        ExpertBuffer buffer = ExpertBuffer.open(group, config().highThroughput(tokens).build())) {
      Dispatch received =
          buffer.dispatch(
              Tokens.of(rows(arena, 1)),
              Routing.of(ids(arena, group.rank(), 1)),
              DispatchOptions.builder().sizing(Sizing.atMost(tokens)).build());
      fill(group);
      try {
        set(received.x().segment(), tokens * ROW_BYTES);
        say(group, "written");
      } catch (Ep4jException e) {
        say(group, e.getMessage());
      }
      free(group);
      set(received.x().segment(), tokens * ROW_BYTES);
      say(group, "written");
    }
  }

  private static void wire(Group group) throws Exception {
    long bytes = 4 << 20;
    WireConfig config = WireConfig.builder().wire(WireName.SHM).timeout(TIMEOUT).build();
    try (Wire wire = Wires.open(group, config);
        Region region = wire.allocate(bytes, TIMEOUT)) {
      fill(group);
      set(requireNonNull(region.memory().segment()), bytes);
      say(group, "written");
      free(group);
    }
  }

  /** No page of the buffer was touched before the file system is full. */
  private static void reset(Group group) throws Exception {
    int tokens = 400;
    BufferConfig config = config().highThroughput(tokens).lowLatency(8).build();
    try (Arena arena = Arena.ofShared();
        ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      fill(group);
      try {
        dispatch(arena, buffer, tokens);
        say(group, "dispatched");
      } catch (Ep4jException e) {
        say(group, e.getMessage());
      }
      buffer.reset();
      say(group, "reset");
      buffer.barrier();
      free(group);
      say(group, "received " + dispatch(arena, buffer, tokens).rows());
    }
  }

  private static void lowLatency(Group group) throws Exception {
    int tokens = 64;
    try (Arena arena = Arena.ofShared();
        ExpertBuffer buffer = ExpertBuffer.open(group, config().lowLatency(tokens).build())) {
      LowLatencyDispatch received =
          lowLatencyDispatch(buffer, rows(arena, tokens), routing(arena, group, tokens));
      fill(group);
      try {
        set(buffer.lowLatencyCombineBuffer(received.handle()).segment(), tokens * ROW_BYTES);
        say(group, "written");
      } catch (Ep4jException e) {
        say(group, e.getMessage());
      }
      free(group);
      Tensor rows = buffer.lowLatencyCombineBuffer(received.handle());
      set(rows.segment(), tokens * ROW_BYTES);
      say(group, "combined");
    }
  }

  /** Both halves of the buffer have had dispatches of short rows, whose combine needs less. */
  private static void rowLengths(Group group) throws Exception {
    int tokens = 64;
    try (Arena arena = Arena.ofShared();
        ExpertBuffer buffer = ExpertBuffer.open(group, config().lowLatency(tokens).build())) {
      for (int half = 0; half < 2; half++) {
        Tensor rows = rows(arena, tokens, HIDDEN / 8);
        LowLatencyDispatch shorter =
            lowLatencyDispatch(buffer, rows, routing(arena, group, tokens));
        long bytes = tokens * ROW_BYTES / 8;
        set(buffer.lowLatencyCombineBuffer(shorter.handle()).segment(), bytes);
      }
      LowLatencyDispatch longest =
          lowLatencyDispatch(buffer, rows(arena, tokens), routing(arena, group, tokens));
      fill(group);
      try {
        set(buffer.lowLatencyCombineBuffer(longest.handle()).segment(), tokens * ROW_BYTES);
        say(group, "written");
      } catch (Ep4jException e) {
        say(group, e.getMessage());
      }
      free(group);
    }
  }

  private static LowLatencyDispatch lowLatencyDispatch(
      ExpertBuffer buffer, Tensor x, Routing routing) {
    return buffer.lowLatencyDispatch(
        Layout.EXPERT_MAJOR, x, routing, LowLatencyDispatchOptions.DEFAULT);
  }

  private static Dispatch dispatch(Arena arena, ExpertBuffer buffer, int tokens) {
    Routing routing = Routing.of(ids(arena, buffer.rank(), tokens));
    return buffer.dispatch(rows(arena, tokens), routing);
  }

  private static Tensor rows(Arena arena, int tokens) {
    return rows(arena, tokens, HIDDEN);
  }

  private static Tensor rows(Arena arena, int tokens, int hidden) {
    return Tensor.of(Tensors.bf16Rows(arena, tokens, hidden, t -> 1), DType.BF16, tokens, hidden);
  }

  /** All tokens go to the other rank. */
  private static Tensor ids(Arena arena, int rank, int tokens) {
    Tensor ids = Tensor.allocate(arena, DType.INT64, tokens, 1);
    for (int t = 0; t < tokens; t++) {
      ids.segment().setAtIndex(ValueLayout.JAVA_LONG, t, 1 - rank);
    }
    return ids;
  }

  private static Routing routing(Arena arena, Group group, int tokens) {
    return Routing.of(
        ids(arena, group.rank(), tokens), Tensor.allocate(arena, DType.FP32, tokens, 1));
  }

  /** Bytes 0x40: elements of about 3. */
  private static void set(MemorySegment to, long bytes) {
    Linker linker = Linker.nativeLinker();
    MethodHandle memset =
        linker.downcallHandle(
            linker.defaultLookup().findOrThrow("memset"),
            FunctionDescriptor.of(
                ValueLayout.ADDRESS,
                ValueLayout.ADDRESS,
                ValueLayout.JAVA_INT,
                ValueLayout.JAVA_LONG));
    try {
      MemorySegment ignored = (MemorySegment) memset.invokeExact(to, 0x40, bytes);
    } catch (Throwable t) {
      throw new AssertionError(t);
    }
  }

  /** Takes all memory of the file system, while no rank works. */
  private static void fill(Group group) throws Exception {
    BOTH.await(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
    if (group.rank() == 0) {
      try (FileChannel file =
          FileChannel.open(FILLER, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
        long free = Files.getFileStore(FILLER).getUsableSpace();
        for (long at = 0; at < free; at += 4096) {
          int ignored = file.write(ByteBuffer.allocate(4096));
        }
      }
    }
    BOTH.await(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
  }

  private static void free(Group group) throws Exception {
    BOTH.await(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
    if (group.rank() == 0) {
      Files.delete(FILLER);
    }
    BOTH.await(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
  }
}
