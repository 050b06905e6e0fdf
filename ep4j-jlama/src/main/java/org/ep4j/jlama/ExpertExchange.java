package org.ep4j.jlama;

import com.github.tjake.jlama.model.mixtral.MixtralConfig;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.DispatchHandle;
import org.ep4j.ExpertBuffer;
import org.ep4j.ExpertRows;
import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.group.Group;
import org.ep4j.group.PeerLostException;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;

/**
 * Agreement of the ranks on their next step, and the way of rows to experts and back in it. A step
 * is one pass through all layers. Prompts come first: a rank that decodes has no tokens in a step
 * of prompts, so that the kind of operations that a token passes does not depend on other ranks.
 */
class ExpertExchange implements AutoCloseable {
  private static final CombineOptions WEIGHTED =
      CombineOptions.builder()
          .applyWeights(true)
          .order(CombineOrder.EXPERT)
          .partialRounding(false)
          .build();

  private static final LowLatencyDispatchOptions SEND =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();

  private static final LowLatencyCombineOptions RETURN =
      LowLatencyCombineOptions.builder().zeroCopy(true).order(CombineOrder.EXPERT).build();

  /** A rank may pause between its texts. The group tells when one is lost. */
  private static final Duration UNLIMITED = Duration.ofDays(365);

  private final Group group;
  private final ExpertPlacement placement;
  private final ExpertBuffer buffer;

  /** The ranks that are left, which agree on steps. */
  private Group live;

  private Phase phase = Phase.SERVE;

  /** Whether an agreement or an exchange of this rank has begun and not ended well. */
  private boolean broken;

  /** Results of a local expert for the rows that it received, [rows, hidden] both. */
  @FunctionalInterface
  interface Experts {
    float[] apply(int local, float[] rows);
  }

  /**
   * @param buffer with a configuration of {@link #config}; this exchange closes it
   */
  ExpertExchange(Group group, ExpertPlacement placement, ExpertBuffer buffer) {
    this.group = group;
    this.live = group;
    this.placement = placement;
    this.buffer = buffer;
  }

  static ExpertExchange open(Group group, MixtralConfig model, Duration timeout) {
    ExpertPlacement placement = placement(model, group.size());
    BufferConfig config = config(model, placement, timeout);
    return new ExpertExchange(group, placement, ExpertBuffer.open(group, config));
  }

  static ExpertPlacement placement(MixtralConfig model, int ranks) {
    return ExpertPlacement.blocks(model.numberOfExperts, ranks);
  }

  static BufferConfig config(MixtralConfig model, ExpertPlacement placement, Duration timeout) {
    // Jlama passes a longer prompt in batches of this size.
    int batch = Integer.getInteger("jlama.max_batch_size", 256);
    return BufferConfig.builder()
        .engine(EngineName.HOST)
        .hidden(model.embeddingLength)
        .topK(model.numberOfExpertsPerToken)
        .placement(placement)
        .highThroughput(
            HighThroughputConfig.builder()
                .maxTokens(batch)
                .rowDType(DType.FP32)
                .layouts(Layout.EXPERT_MAJOR)
                .build())
        .lowLatency(LowLatencyConfig.builder().maxTokens(1).masking(true).build())
        .timeout(timeout)
        .build();
  }

  /** The experts of this rank, by local index. */
  int[] ownExperts() {
    int[] experts = new int[placement.localExperts(group.rank())];
    for (int local = 0; local < experts.length; local++) {
      experts[local] = placement.expertAt(group.rank(), local);
    }
    return experts;
  }

  /** Whether the rank of an expert is lost. */
  boolean isLost(int expert) {
    return buffer.isMasked(placement.rankOf(expert));
  }

  /**
   * The phase of the next step, the same on all ranks; collective. If the last step or agreement
   * has failed on a rank, all ranks reset their buffer first.
   */
  Phase agree(Phase wanted) {
    while (true) {
      byte reset = (byte) (needsReset() ? 1 : 0);
      int first = wanted.ordinal();
      // Until this method returns: what fails here may count as done on the other ranks.
      broken = true;
      try {
        if (live.size() > 1) {
          byte[] mine = {(byte) first, reset};
          for (byte[] request : live.allGather(mine, UNLIMITED)) {
            first = Math.max(first, request[0]);
            reset |= request[1];
          }
        }
      } catch (PeerLostException e) {
        continueWithoutLostRanks();
        continue;
      }
      if (reset != 0) {
        reset();
      }
      broken = false;
      phase = Phase.values()[first];
      return phase;
    }
  }

  /** Whether an operation has failed here, or a live rank came too late for one. */
  private boolean needsReset() {
    return broken
        || IntStream.range(0, group.size())
            .anyMatch(rank -> group.isAlive(rank) && buffer.isMasked(rank));
  }

  private void continueWithoutLostRanks() {
    Group remaining = live.survivors(UNLIMITED);
    closeSurvivors();
    live = remaining;
  }

  /** Collective; admits live ranks that were masked. */
  private void reset() {
    buffer.reset();
    buffer.barrier();
    buffer.cleanMask();
    buffer.barrier();
  }

  /**
   * Sends rows to their experts and returns the weighted sums of the results; collective, in the
   * phase on which the ranks agreed.
   *
   * @param rows of this rank, [tokens, hidden]
   */
  float[] exchange(float[] rows, Routing routing, Experts experts) {
    int hidden = buffer.config().hidden();
    int tokens = rows.length / hidden;
    broken = true;
    float[] sums =
        phase == Phase.PREFILL
            ? prefill(Tensor.of(rows, tokens, hidden), routing, experts)
            : decode(Tensor.fromFloats(rows, DType.BF16, tokens, hidden), routing, experts);
    broken = false;
    return sums;
  }

  private float[] prefill(Tensor x, Routing routing, Experts experts) {
    GroupedDispatch received = buffer.dispatchGrouped(x, routing);
    Tensor results = received.combineInput(DType.FP32);
    apply(experts, received.expertRows(), received.x(), results);
    try (DispatchHandle handle = received.handle()) {
      return buffer.combine(results, handle, WEIGHTED).x().toFloatArray();
    }
  }

  /** Low-latency combine applies the weights. */
  private float[] decode(Tensor x, Routing routing, Experts experts) {
    LowLatencyDispatch received = buffer.lowLatencyDispatch(x, routing, SEND);
    Tensor results = buffer.lowLatencyCombineBuffer(received.handle());
    apply(experts, received.expertRows(), received.x(), results);
    return buffer.lowLatencyCombine(results, routing, received.handle(), RETURN).x().toFloatArray();
  }

  private static void apply(
      Experts experts, List<ExpertRows> received, Tensor rows, Tensor results) {
    for (ExpertRows expert : received) {
      float[] values = expert.of(rows).toFloatArray();
      expert.of(results).copyFrom(experts.apply(expert.local(), values));
    }
  }

  private void closeSurvivors() {
    if (live != group) {
      live.close();
    }
  }

  @Override
  public void close() {
    buffer.close();
    closeSurvivors();
  }
}
