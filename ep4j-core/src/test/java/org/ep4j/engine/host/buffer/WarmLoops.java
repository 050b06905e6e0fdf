package org.ep4j.engine.host.buffer;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.engine.host.kernel.AllocatingCalls;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** A program: prints how many bytes each rank allocates in a warm window of calls. */
final class WarmLoops {
  /** Number of printed lines: loops of two ranks, and two loops of three. */
  static final int LINES = 6 * 2 + 2 * 3;

  private static final int SHORT_ROW = 64;

  /** The rows of all tokens are a run that the wire reads from the caller's memory. */
  private static final int LONG_ROW = 2048;

  private static final int TOKENS = 24;
  private static final int WINDOW = 50;

  private WarmLoops() {}

  public static void main(String[] arguments) {
    for (Layout layout : List.of(Layout.FLAT, Layout.EXPERT_MAJOR)) {
      for (boolean limited : new boolean[] {false, true}) {
        ThreadRanks.run(2, group -> loop(group, SHORT_ROW, layout, limited, 0));
      }
      ThreadRanks.run(3, group -> loop(group, SHORT_ROW, layout, false, 2));
    }
    ThreadRanks.run(2, group -> loop(group, LONG_ROW, Layout.FLAT, false, 1));
    ThreadRanks.run(2, WarmLoops::dispatchesAlone);
  }

  /** No caller asks for the handle. */
  private static void dispatchesAlone(Group group) {
    BufferConfig config =
        BufferConfig.builder().hidden(SHORT_ROW).topK(3).experts(8).highThroughput(TOKENS).build();
    try (Arena arena = Arena.ofConfined();
        ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      Tokens x = Tokens.of(Tensor.allocate(arena, DType.BF16, TOKENS, SHORT_ROW));
      Routing routing = routing(arena, group.rank());
      measure(group, "dispatches without a handle", () -> buffer.dispatch(x, routing).x());
    }
  }

  private static void measure(Group group, String what, Runnable call) {
    long least =
        AllocationWindows.least(
            group,
            () -> {
              for (int i = 0; i < WINDOW; i++) {
                call.run();
              }
            });
    AllocatingCalls.print(least, WINDOW + " " + what + ", rank " + group.rank());
  }

  private static void loop(
      Group group, int hidden, Layout layout, boolean limited, int ranksPerNode) {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(hidden)
            .topK(3)
            .experts(8)
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(TOKENS)
                    .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
                    .build())
            .ranksPerNode(ranksPerNode)
            .wire(ranksPerNode == 0 ? "auto" : "tcp")
            .build();
    DispatchOptions.Builder options =
        DispatchOptions.builder().expertAlignment(4).zeroPadding(true);
    if (limited) {
      options.sizing(Sizing.atMost(300));
    }
    try (Arena arena = Arena.ofConfined();
        ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      Tokens x =
          Tokens.of(
              Tensor.of(arena.allocate(2L * TOKENS * hidden, 64), DType.BF16, TOKENS, hidden));
      Iteration iteration =
          new Iteration(buffer, layout, x, routing(arena, group.rank()), options.build());
      measure(
          group,
          "iterations of rows of %d, %s%s, %d ranks a node"
              .formatted(hidden, layout, limited ? " with a limit" : "", ranksPerNode),
          iteration::run);
    }
  }

  private static Routing routing(Arena arena, int rank) {
    MemorySegment ids = arena.allocate(8L * TOKENS * 3, 64);
    MemorySegment weights = arena.allocate(4L * TOKENS * 3, 64);
    for (int t = 0; t < TOKENS; t++) {
      for (int k = 0; k < 3; k++) {
        ids.setAtIndex(ValueLayout.JAVA_LONG, 3L * t + k, (t * 5 + k * 2 + rank) % 8);
        weights.setAtIndex(ValueLayout.JAVA_FLOAT, 3L * t + k, 0.5f);
      }
    }
    return Routing.of(
        Tensor.of(ids, DType.INT64, TOKENS, 3), Tensor.of(weights, DType.FP32, TOKENS, 3));
  }

  /** A forward pass and a pass along its routes; reads every result. */
  private static final class Iteration {
    private final ExpertBuffer buffer;
    private final Layout layout;
    private final Tokens x;
    private final Routing routing;
    private final DispatchOptions options;

    /** Of the second combine: only EXPERT_MAJOR rows have a weight each. */
    private final CombineOptions applied;

    Iteration(
        ExpertBuffer buffer, Layout layout, Tokens x, Routing routing, DispatchOptions options) {
      this.buffer = buffer;
      this.layout = layout;
      this.x = x;
      this.routing = routing;
      this.options = options;
      applied = CombineOptions.builder().applyWeights(layout == Layout.EXPERT_MAJOR).build();
    }

    void run() {
      Dispatch d = buffer.dispatch(layout, x, routing, options);
      DispatchHandle handle = d.handle();
      look(d);
      Combine c = buffer.combine(d.x(), handle);
      c.x();
      look(buffer.dispatch(layout, x, handle, Execution.SYNCHRONOUS));
      buffer.combine(d.combineInput(DType.BF16), handle, applied).x();
      buffer.dispatchLayout(routing).tokensPerExpert();
      buffer.barrier();
      handle.close();
    }

    private static void look(Dispatch d) {
      d.x();
      if (d instanceof FlatDispatch flat) {
        if (flat.hasChoices()) {
          flat.topkIdx();
        }
        if (flat.hasWeights()) {
          flat.topkWeights();
        }
        flat.rankOffsets();
      } else if (d instanceof GroupedDispatch grouped) {
        if (grouped.hasWeights()) {
          grouped.rowWeights();
        }
        grouped.expertOffsets();
      }
      d.alignedCounts();
      d.counts();
      d.sourceTokens();
      d.sourceRanks();
      d.overflow();
    }
  }
}
