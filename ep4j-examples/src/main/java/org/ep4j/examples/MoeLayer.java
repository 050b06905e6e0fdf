package org.ep4j.examples;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;

import java.lang.foreign.MemorySegment;
import org.ep4j.CombineOptions;
import org.ep4j.DispatchHandle;
import org.ep4j.ExpertBuffer;
import org.ep4j.ExpertRows;
import org.ep4j.GroupedDispatch;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.group.Group;
import org.ep4j.group.LaunchEnvironment;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Forward pass of a Mixture-of-Experts layer whose experts are distributed over the ranks. Rows
 * arrive grouped by expert ({@link Layout#EXPERT_MAJOR}), so that each expert works on consecutive
 * rows.
 *
 * <p>One rank's part of the layer; used by one thread.
 */
public final class MoeLayer {
  /** Sums are rounded once, at the end: FP32 partial sums are not rounded. */
  private static final CombineOptions EXACT = CombineOptions.DEFAULT;

  private final ToyModel model;
  private final ExpertBuffer buffer;
  private final float[] router;
  private final ToyModel.Expert[] experts;

  /** Opens a buffer for layers of a shape on every rank of a group. */
  static ExpertBuffer open(Group group, ToyModel model, int maxTokens) {
    return ExpertBuffer.open(
        group,
        BufferConfig.builder()
            .engine(EngineName.HOST) // the experts of this layer are Java code
            .hidden(model.hidden())
            .topK(model.topK())
            .placement(ExpertPlacement.blocks(model.experts(), group.size()))
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(maxTokens)
                    .rowDType(DType.FP32)
                    .layouts(Layout.EXPERT_MAJOR)
                    .build())
            .build());
  }

  /** A layer on a buffer that the caller closes; layers that do not overlap can share it. */
  MoeLayer(ExpertBuffer buffer, ToyModel model) {
    this.model = model;
    this.buffer = buffer;
    this.router = model.router();
    ExpertPlacement placement = ExpertPlacement.blocks(model.experts(), buffer.worldSize());
    this.experts = new ToyModel.Expert[placement.localExperts(buffer.rank())];
    for (int local = 0; local < experts.length; local++) {
      experts[local] = model.expert(placement.expertAt(buffer.rank(), local));
    }
  }

  /** The layer's output for this rank's tokens [T, hidden]; collective. */
  float[] forward(float[] x) {
    int tokens = x.length / model.hidden();
    Routing routing = model.routing(router, x);
    GroupedDispatch received =
        buffer.dispatchGrouped(Tensor.of(x, tokens, model.hidden()), routing);
    try (DispatchHandle handle = received.handle()) {
      applyExperts(received);
      return buffer.combine(received.x(), handle, EXACT).x().segment().toArray(JAVA_FLOAT);
    }
  }

  /** Each local expert on its group of rows, in place, weighted. */
  private void applyExperts(GroupedDispatch received) {
    float[] token = new float[model.hidden()];
    Tensor weights = received.rowWeights();
    MemorySegment rows = received.x().segment();
    for (ExpertRows expert : received.expertRows()) {
      for (long row = expert.first(); row < expert.end(); row++) {
        long at = row * token.length;
        MemorySegment.copy(rows, JAVA_FLOAT, at * Float.BYTES, token, 0, token.length);
        model.apply(experts[expert.local()], token);
        for (int i = 0; i < token.length; i++) {
          rows.setAtIndex(JAVA_FLOAT, at + i, weights.getFloat(row) * token[i]);
        }
      }
    }
  }

  /** One rank of a launcher's world; without a launcher two ranks as threads. */
  public static void main(String... arguments) {
    LaunchEnvironment environment = LaunchEnvironment.of(System.getenv());
    if (environment.config() == null) {
      ThreadRanks.run(2, MoeLayer::demonstrate);
    } else {
      try (Group group = environment.join()) {
        demonstrate(group);
      }
    }
  }

  private static void demonstrate(Group group) {
    ToyModel model = new ToyModel(64, 128, 8, 2, 42);
    int tokens = 16;
    try (ExpertBuffer buffer = open(group, model, tokens)) {
      MoeLayer layer = new MoeLayer(buffer, model);
      float[] y = layer.forward(model.tokens(group.rank(), tokens));
      double norm = 0;
      for (float value : y) {
        norm += value * value;
      }
      System.out.printf(
          "rank %d of %d: %d tokens through %d of %d experts, norm of the result %.4f%n",
          group.rank(),
          group.size(),
          tokens,
          layer.experts.length,
          model.experts(),
          Math.sqrt(norm));
    }
  }
}
