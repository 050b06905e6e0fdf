package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Options of {@link ExpertBuffer#combine(Tensor, DispatchHandle, CombineOptions)}. Immutable;
 * create one and reuse it.
 *
 * @param topkWeights weights to return to the sources, for example gradients: FP32 [N, K] (FLAT) or
 *     [N] (EXPERT_MAJOR). They are summed over ranks like the rows and are not applied to the rows
 * @param bias0 added first, dtype of the rows, [T, H]
 * @param bias1 added second, dtype of the rows, [T, H]; needs {@code bias0}
 * @param partialRounding whether partial sums are rounded to the row dtype before they are added;
 *     default true, which needs the least traffic. EXPERT_MAJOR rounds the partial sum of each
 *     rank; between nodes, the partial sum of each node is rounded. With false there is one
 *     rounding only: the result does not depend on which ranks share a node, but all rows of a
 *     token travel between nodes instead of one per node
 * @param out target of the sums, dtype of the rows, [T, H]; null = memory of the buffer, valid
 *     until its next combine
 * @param previousEvent event that the operation waits for first
 * @param stream device stream to run on: the call returns after the work is enqueued, and results
 *     are ready in stream order; null = the buffer's own stream. Only for device engines
 * @param async return before completion; accessors of the result wait for {@link Combine#event()}
 */
public record CombineOptions(
    @Nullable Tensor topkWeights,
    @Nullable Tensor bias0,
    @Nullable Tensor bias1,
    boolean partialRounding,
    @Nullable Tensor out,
    @Nullable Event previousEvent,
    @Nullable DeviceStream stream,
    boolean async) {
  /** No weights, no bias, partial rounding, synchronous. */
  public static final CombineOptions DEFAULT = builder().build();

  /**
   * Checks that a second bias has a first.
   *
   * @throws InvalidArgumentException if {@code bias1} is set without {@code bias0}
   */
  public CombineOptions {
    if (bias1 != null && bias0 == null) {
      throw new InvalidArgumentException(
          ErrorCode.OPTIONS_EXCLUSIVE,
          "bias1",
          bias1.toString(),
          "null without bias0",
          "pass a single bias as bias0");
    }
  }

  /** A builder with the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** Collects options. */
  public static final class Builder {
    private @Nullable Tensor topkWeights;
    private @Nullable Tensor bias0;
    private @Nullable Tensor bias1;
    private boolean partialRounding = true;
    private @Nullable Tensor out;
    private @Nullable Event previousEvent;
    private @Nullable DeviceStream stream;
    private boolean async;

    private Builder() {}

    /** Weights to return to the sources. */
    public Builder topkWeights(Tensor value) {
      topkWeights = value;
      return this;
    }

    /** One bias. */
    public Builder bias(Tensor value) {
      bias0 = value;
      return this;
    }

    /** Two biases, added in this order. */
    public Builder bias(Tensor first, Tensor second) {
      bias0 = first;
      bias1 = second;
      return this;
    }

    /** Whether partial sums are rounded. */
    public Builder partialRounding(boolean value) {
      partialRounding = value;
      return this;
    }

    /** Target of the sums. */
    public Builder out(Tensor value) {
      out = value;
      return this;
    }

    /** Event that the operation waits for first. */
    public Builder previousEvent(Event value) {
      previousEvent = value;
      return this;
    }

    /** Device stream to run on. */
    public Builder stream(DeviceStream value) {
      stream = value;
      return this;
    }

    /** Whether the call returns before completion. */
    public Builder async(boolean value) {
      async = value;
      return this;
    }

    /** The options. */
    public CombineOptions build() {
      return new CombineOptions(
          topkWeights, bias0, bias1, partialRounding, out, previousEvent, stream, async);
    }
  }
}
