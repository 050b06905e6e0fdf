package org.ep4j.conformance;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.ep4j.Combine;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.group.Group;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Inputs.Part;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.jspecify.annotations.Nullable;

/**
 * Many small operations on one buffer: neither the heap nor the process may grow, and the last
 * results must equal the first. Arguments: engine, number of operations, whether they include
 * low-latency operations; then {@link NodeArguments}.
 */
final class SoakJob implements RankJob {
  private static final int HIDDEN = 128;
  private static final int TOP_K = 2;
  private static final int EXPERTS = 4;
  private static final int TOKENS = 4;
  private static final long KIBIBYTE = 1024;

  /** Memory that a JVM may allocate for compilation and profiles. */
  private static final long MAX_GROWTH = 48L << 20;

  @Override
  public void run(Group group, List<String> arguments) throws IOException {
    boolean lowLatency = Boolean.parseBoolean(arguments.get(2));
    long rounds = Long.parseLong(arguments.get(1)) / (lowLatency ? 4 : 2);
    BufferConfig.Builder config =
        NodeArguments.of(arguments)
            .apply(BufferConfig.builder())
            .hidden(HIDDEN)
            .topK(TOP_K)
            .experts(EXPERTS)
            .highThroughput(TOKENS)
            .engine(arguments.getFirst());
    if (lowLatency) {
      config.lowLatency(TOKENS);
    }
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config.build());
        Arena arena = Arena.ofShared()) {
      Routing routing =
          new RoutingGenerator(RoutingKind.UNIFORM, 1, EXPERTS, TOP_K)
              .routing(group.rank(), TOKENS, arena);
      Tensor x =
          new Inputs(1).tensor(Part.PAYLOAD, DType.BF16, group.rank(), TOKENS, HIDDEN, arena);
      Tokens tokens = Tokens.of(x);
      byte[] first = new byte[0];
      long heapBefore = 0;
      long processBefore = 0;
      for (long round = 0; round < rounds; round++) {
        byte @Nullable [] sums =
            highThroughput(buffer, tokens, routing, round == 0 || round == rounds - 1);
        if (lowLatency) {
          lowLatency(buffer, x, routing);
        }
        if (round == 0 && sums != null) {
          first = sums;
        } else if (sums != null && !Arrays.equals(first, sums)) {
          throw new AssertionError("the last sums are not the first ones");
        }
        if (round == rounds / 2) { // until then the JVM loads and compiles code, and its heap grows
          heapBefore = usedHeap();
          processBefore = residentBytes();
        }
      }
      check("heap", heapBefore, usedHeap());
      check("process", processBefore, residentBytes());
    }
  }

  private static byte @Nullable [] highThroughput(
      ExpertBuffer buffer, Tokens tokens, Routing routing, boolean wanted) {
    Dispatch dispatch = buffer.dispatch(tokens, routing, DispatchOptions.DEFAULT);
    try (DispatchHandle handle = dispatch.handle()) {
      Combine combine = buffer.combine(dispatch.x(), handle);
      if (!wanted) {
        return null;
      }
      byte[] sums = new byte[(int) combine.x().byteSize()];
      combine.x().copyTo(MemorySegment.ofArray(sums));
      return sums;
    }
  }

  private static void lowLatency(ExpertBuffer buffer, Tensor x, Routing routing) {
    LowLatencyDispatch rows =
        buffer.lowLatencyDispatch(x, routing, LowLatencyDispatchOptions.DEFAULT);
    Tensor y = buffer.lowLatencyCombineBuffer(rows.handle());
    buffer.lowLatencyCombine(y, routing, rows.handle(), ZERO_COPY);
  }

  private static final LowLatencyCombineOptions ZERO_COPY =
      LowLatencyCombineOptions.builder().zeroCopy(true).build();

  private static void check(String what, long before, long after) {
    if (after - before > MAX_GROWTH) {
      throw new AssertionError(
          "the " + what + " grew from " + (before >> 20) + " to " + (after >> 20) + " MiB");
    }
  }

  private static long usedHeap() {
    System.gc();
    Runtime runtime = Runtime.getRuntime();
    return runtime.totalMemory() - runtime.freeMemory();
  }

  /** Resident memory of this process; 0 if the system does not report it. */
  private static long residentBytes() throws IOException {
    Path status = Path.of("/proc/self/status");
    if (!Files.isReadable(status)) {
      return 0;
    }
    for (String line : Files.readAllLines(status)) {
      if (line.startsWith("VmRSS:")) {
        return Long.parseLong(line.replaceAll("\\D", "")) * KIBIBYTE;
      }
    }
    return 0;
  }
}
