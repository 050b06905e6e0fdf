package org.ep4j;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.Execution;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Options of {@link ExpertBuffer#combine(Tensor, DispatchHandle, CombineOptions)}. Immutable;
 * create one and reuse it. Unless {@link #applyWeights} is set, combine applies no routing weights:
 * the caller multiplies the rows by their weights.
 */
public final class CombineOptions {
  /** No weights returned or applied, no bias, partial rounding, synchronous. */
  public static final CombineOptions DEFAULT = builder().build();

  private final @Nullable Tensor topkWeights;
  private final boolean applyWeights;
  private final CombineOrder order;
  private final @Nullable Tensor bias0;
  private final @Nullable Tensor bias1;
  private final boolean partialRounding;
  private final @Nullable Tensor out;
  private final Execution execution;

  private CombineOptions(Builder b) {
    topkWeights = b.topkWeights;
    applyWeights = b.applyWeights;
    order = b.order;
    if (order == CombineOrder.CHOICE) {
      throw new InvalidArgumentException(
          ErrorCode.COMBINE_ORDER,
          "order",
          "CHOICE",
          "RANK or EXPERT in high throughput",
          "use EXPERT, whose bits do not depend on ranks either");
    }
    bias0 = b.bias0;
    bias1 = b.bias1;
    partialRounding = b.partialRounding;
    out = b.out;
    execution = b.execution;
  }

  /** A builder with the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** A builder that starts from these options. */
  public Builder toBuilder() {
    Builder b = new Builder();
    b.topkWeights = topkWeights;
    b.applyWeights = applyWeights;
    b.order = order;
    b.bias0 = bias0;
    b.bias1 = bias1;
    b.partialRounding = partialRounding;
    b.out = out;
    b.execution = execution;
    return b;
  }

  /**
   * Weights to return to the sources, for example gradients: FP32 [N, K] (FLAT) or [N]
   * (EXPERT_MAJOR); or null. They are summed over ranks like the rows. Combine never multiplies
   * rows by them; {@link #applyWeights} multiplies by the weights of the dispatch.
   */
  public @Nullable Tensor topkWeights() {
    return topkWeights;
  }

  /**
   * Whether combine multiplies each row by its routing weight; default false. Only EXPERT_MAJOR,
   * whose rows have one weight each, and equal on all ranks.
   *
   * <p>The weights are those of the dispatch that made the handle, {@link Routing#topkWeights()}.
   * The handle keeps a copy of them, so neither later dispatches nor writes to {@link
   * GroupedDispatch#rowWeights()} change them. After a cached dispatch, which has no weights, they
   * still apply.
   *
   * <p>The product of the value in FP32 and the weight is rounded to FP32, then added as without
   * this option: no fused multiply-add, except with {@link CombineOrder#EXPERT}. Biases are not
   * multiplied.
   *
   * <p>Combine refuses it for FLAT rows, which stand for several experts, and for a handle whose
   * dispatch had no weights.
   */
  public boolean applyWeights() {
    return applyWeights;
  }

  /**
   * Order of the sums, equal on all ranks: {@link CombineOrder#RANK} (default), or {@link
   * CombineOrder#EXPERT} for EXPERT_MAJOR rows.
   */
  public CombineOrder order() {
    return order;
  }

  /** Added first, dtype of the rows, [T, H]; or null. */
  public @Nullable Tensor bias0() {
    return bias0;
  }

  /** Added second, dtype of the rows, [T, H]; or null. */
  public @Nullable Tensor bias1() {
    return bias1;
  }

  /**
   * Whether partial sums are rounded to the row dtype before they are added; default true, which
   * needs the least traffic. EXPERT_MAJOR rounds the partial sum of each rank; between nodes, the
   * partial sum of each node is rounded. With false there is one rounding only: the result does not
   * depend on which ranks share a node, but all rows of a token travel between nodes instead of one
   * per node. {@link CombineOrder#EXPERT} has no partial sums: there it has no effect.
   */
  public boolean partialRounding() {
    return partialRounding;
  }

  /**
   * Target of the sums, dtype of the rows, [T, H]; null = memory of the buffer, valid until its
   * next combine.
   */
  public @Nullable Tensor out() {
    return out;
  }

  /** Start, stream and return of the operation; default {@link Execution#SYNCHRONOUS}. */
  public Execution execution() {
    return execution;
  }

  @Override
  public String toString() {
    return "CombineOptions[topkWeights="
        + topkWeights
        + ", applyWeights="
        + applyWeights
        + ", order="
        + order
        + ", bias0="
        + bias0
        + ", bias1="
        + bias1
        + ", partialRounding="
        + partialRounding
        + ", out="
        + out
        + ", execution="
        + execution
        + "]";
  }

  /** Collects options. */
  public static final class Builder {
    private @Nullable Tensor topkWeights;
    private boolean applyWeights;
    private CombineOrder order = CombineOrder.RANK;
    private @Nullable Tensor bias0;
    private @Nullable Tensor bias1;
    private boolean partialRounding = true;
    private @Nullable Tensor out;
    private Execution execution = Execution.SYNCHRONOUS;

    private Builder() {}

    /** Weights to return to the sources; combine does not multiply rows by them. */
    public Builder topkWeights(Tensor value) {
      topkWeights = value;
      return this;
    }

    /** Whether rows are multiplied by the routing weights of their dispatch. */
    public Builder applyWeights(boolean value) {
      applyWeights = value;
      return this;
    }

    /** Order of the sums. */
    public Builder order(CombineOrder value) {
      order = value;
      return this;
    }

    /** One bias. */
    public Builder bias(Tensor value) {
      bias0 = value;
      bias1 = null;
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

    /** Start, stream and return of the operation. */
    public Builder execution(Execution value) {
      execution = value;
      return this;
    }

    /** The options. */
    public CombineOptions build() {
      return new CombineOptions(this);
    }
  }
}
