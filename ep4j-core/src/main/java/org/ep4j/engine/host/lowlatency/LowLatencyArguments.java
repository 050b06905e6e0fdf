package org.ep4j.engine.host.lowlatency;

import static java.util.Objects.requireNonNull;

import org.ep4j.Layout;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Routing;
import org.ep4j.Tensor;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.LowLatencyShapes;
import org.ep4j.engine.host.context.HostContext;
import org.jspecify.annotations.Nullable;

/** Checks of the arguments of low-latency operations; passing checks allocate nothing. */
final class LowLatencyArguments {
  private LowLatencyArguments() {}

  static void dispatch(
      HostContext context,
      Layout layout,
      Tensor x,
      Routing routing,
      LowLatencyDispatchOptions options) {
    int local = context.placement.localExperts(context.rank);
    LowLatencyShapes.dispatch(context.config, context.ranks, local, layout, x, routing, options);
    Arguments.noStream(options.execution().stream());
    Arguments.onHost("x", x);
    Arguments.onHost("topkIdx", routing.topkIdx());
    Tensor weights = routing.topkWeights();
    if (layout == Layout.RANK_MAJOR && weights != null) {
      Arguments.onHost("topkWeights", weights);
    }
    writable("cumulativeStats", options.cumulativeStats());
    writable("waitStats", options.waitStats());
  }

  static void combine(
      HostContext context,
      Tensor y,
      Routing routing,
      LowLatencyRecord record,
      Tensor region,
      LowLatencyCombineOptions options) {
    int local = context.placement.localExperts(context.rank);
    Layout layout = record.byRanks ? Layout.RANK_MAJOR : Layout.EXPERT_MAJOR;
    LowLatencyShapes.combine(
        context.config,
        context.ranks,
        local,
        y,
        routing,
        record.tokens,
        record.topK,
        layout,
        options);
    Arguments.noStream(options.execution().stream());
    Arguments.onHost("y", y);
    boolean isRegion = y.nativeHost() && y.address() == region.address();
    LowLatencyShapes.combineRegion(y, isRegion, Arguments.overlap(y, region), options);
    Arguments.onHost("topkIdx", routing.topkIdx());
    if (!record.byRanks) {
      Arguments.onHost("topkWeights", requireNonNull(routing.topkWeights()));
    }
    writable("out", options.out());
    writable("waitStats", options.waitStats());
  }

  static void maskedRank(HostContext context, int rank) {
    LowLatencyShapes.maskedRank(rank, context.rank, context.ranks, context.excluded);
  }

  private static void writable(String name, @Nullable Tensor tensor) {
    if (tensor != null) {
      Arguments.writableOnHost(name, tensor);
    }
  }
}
