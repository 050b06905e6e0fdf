package org.ep4j.examples;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.group.Group;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;

/**
 * One layer of a decoding step by low-latency operations. The batch is split into two halves, and
 * hooks split each operation into sending and receiving: while the rows of one half travel, the
 * experts work on the other.
 *
 * <p>One rank's part; used by one thread. All ranks make the same steps, those without tokens too.
 */
final class Decoding implements AutoCloseable {
  private static final LowLatencyDispatchOptions SEND =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).returnHook(true).build();
  private static final LowLatencyCombineOptions RETURN =
      LowLatencyCombineOptions.builder().zeroCopy(true).returnHook(true).build();

  private final ToyModel model;
  private final ExpertBuffer buffer;
  private final float[] router;
  private final List<ToyModel.Expert> experts = new ArrayList<>();

  /** A half of the batch: its routing, and its operation under way. */
  private record Half(Routing routing, LowLatencyDispatch received) {}

  /**
   * Opens the layer on every rank of a group.
   *
   * @param maxTokens the largest half of a batch on any rank
   */
  Decoding(Group group, ToyModel model, int maxTokens) {
    this.model = model;
    this.router = model.router();
    ExpertPlacement placement = ExpertPlacement.blocks(model.experts(), group.size());
    for (int local = 0; local < placement.localExperts(group.rank()); local++) {
      experts.add(model.expert(placement.expertAt(group.rank(), local)));
    }
    this.buffer =
        ExpertBuffer.open(
            group,
            BufferConfig.builder()
                .engine(EngineName.HOST) // the experts of this layer are Java code
                .hidden(model.hidden())
                .topK(model.topK())
                .placement(placement)
                .lowLatency(maxTokens)
                .build());
  }

  /**
   * The layer's output for both halves of the batch, each [T, hidden] with its own T; collective.
   */
  List<float[]> step(float[] firstTokens, float[] secondTokens) {
    Half first = send(firstTokens);
    Half second = send(secondTokens);

    first.received().hook().receive();
    applyExperts(first); // the rows of the second half travel
    second.received().hook().receive();
    LowLatencyCombine firstSums = giveBack(first);
    applyExperts(second); // the sums of the first half travel
    firstSums.hook().receive();
    LowLatencyCombine secondSums = giveBack(second);
    secondSums.hook().receive();
    return List.of(firstSums.x().toFloatArray(), secondSums.x().toFloatArray());
  }

  private Half send(float[] x) {
    int tokens = x.length / model.hidden();
    Routing routing = model.routing(router, x);
    Tensor rows = Tensor.fromFloats(x, DType.BF16, tokens, model.hidden());
    return new Half(routing, buffer.lowLatencyDispatch(rows, routing, SEND));
  }

  /** Low-latency combine applies the routing weights. */
  private LowLatencyCombine giveBack(Half half) {
    Tensor results = buffer.lowLatencyCombineBuffer(half.received().handle());
    return buffer.lowLatencyCombine(results, half.routing(), half.received().handle(), RETURN);
  }

  /** Each local expert on its rows, into the memory from which combine sends. */
  private void applyExperts(Half half) {
    Tensor received = half.received().x(); // [local experts, space, hidden]
    long space = received.size(1);
    Tensor rows = received.reshape(received.size(0) * space, model.hidden());
    Tensor results =
        buffer
            .lowLatencyCombineBuffer(half.received().handle())
            .reshape(rows.size(0), model.hidden());
    for (int local = 0; local < experts.size(); local++) {
      long first = local * space;
      long end = first + half.received().counts().getInt(local);
      for (long row = first; row < end; row++) {
        float[] token = rows.rows(row, row + 1).toFloatArray();
        model.apply(experts.get(local), token);
        results.rows(row, row + 1).copyFrom(token);
      }
    }
  }

  @Override
  public void close() {
    buffer.close();
  }
}
