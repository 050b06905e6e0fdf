package org.ep4j.engine.host.lowlatency;

import static org.ep4j.engine.host.lowlatency.LowLatencyCase.config;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.routing;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.rows;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.Layout;
import org.ep4j.engine.host.buffer.AllocationWindows;
import org.ep4j.engine.host.kernel.AllocatingCalls;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;

/** A program: prints how many bytes each of two ranks allocates in a warm window of calls. */
final class LowLatencyAllocations {
  static final int RANKS = 2;

  private static final int CALLS = 600;

  private LowLatencyAllocations() {}

  public static void main(String[] arguments) {
    ThreadRanks.run(
        RANKS,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            Loop loop = new Loop(buffer);
            long least = AllocationWindows.least(group, () -> loop.run(CALLS));
            AllocatingCalls.print(least, CALLS + " calls of rank " + group.rank());
          }
        });
  }

  /** Dispatches and combines in all formats and both layouts, with and without hooks. */
  private static final class Loop {
    private final ExpertBuffer buffer;
    private final Tensor x;
    private final Tensor y = LowLatencyCase.expertRows();
    private final Tensor partials = LowLatencyRankMajorTest.empty();
    private final Routing routing;
    private final List<LowLatencyDispatchOptions> dispatches = new ArrayList<>();
    private final List<LowLatencyCombineOptions> combines = new ArrayList<>();

    Loop(ExpertBuffer buffer) {
      this.buffer = buffer;
      x = rows(buffer.rank());
      routing = routing(buffer.rank());
      for (int i = 0; i < 12; i++) {
        boolean byRanks = i >= 6;
        boolean hooked = i % 6 >= 3;
        dispatches.add(
            LowLatencyDispatchOptions.builder()
                .format(RowFormat.values()[i % 3])
                .deliverWeights(i % 4 == 0)
                .returnHook(hooked)
                .build());
        combines.add(
            LowLatencyCombineOptions.builder()
                .logFmt(!byRanks && i % 3 == 0)
                .zeroCopy(i % 3 == 1)
                .partialRounding(!byRanks && i % 3 == 2)
                .returnHook(hooked)
                .build());
      }
    }

    void run(int calls) {
      for (int i = 0; i < calls; i++) {
        LowLatencyDispatchOptions send = dispatches.get(i % dispatches.size());
        boolean byRanks = i % dispatches.size() >= 6;
        LowLatencyDispatch d =
            buffer.lowLatencyDispatch(
                byRanks ? Layout.RANK_MAJOR : Layout.EXPERT_MAJOR, x, routing, send);
        if (send.returnHook()) {
          d.hook().receive();
        }
        LowLatencyCombineOptions bring = combines.get(i % combines.size());
        Tensor copied = byRanks ? partials : y;
        Tensor rows = bring.zeroCopy() ? buffer.lowLatencyCombineBuffer(d.handle()) : copied;
        LowLatencyCombine c = buffer.lowLatencyCombine(rows, routing, d.handle(), bring);
        if (bring.returnHook()) {
          c.hook().receive();
        }
        d.x();
        c.x();
      }
    }
  }
}
