package org.ep4j;

import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.Execution;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Options of {@link ExpertBuffer#lowLatencyDispatch} and {@link
 * ExpertBuffer#lowLatencyDispatchByRank}. Immutable; create one and reuse it.
 */
public final class LowLatencyDispatchOptions {
  /** FP8 with FP32 scales, received by the call itself. */
  public static final LowLatencyDispatchOptions DEFAULT = builder().build();

  private final int experts;
  private final RowFormat format;
  private final ScaleKind scaleKind;
  private final ScaleLayout scaleLayout;
  private final @Nullable Tensor globalScale;
  private final boolean deliverWeights;
  private final @Nullable Tensor cumulativeStats;
  private final @Nullable Tensor waitStats;
  private final boolean returnHook;
  private final Execution execution;

  private LowLatencyDispatchOptions(Builder b) {
    experts = b.experts;
    format = b.format;
    scaleKind = b.scaleKind;
    scaleLayout = b.scaleLayout;
    globalScale = b.globalScale;
    deliverWeights = b.deliverWeights;
    cumulativeStats = b.cumulativeStats;
    waitStats = b.waitStats;
    returnHook = b.returnHook;
    execution = b.execution;
    DispatchOptions.checkExperts(experts);
    if (returnHook && execution.isAsync()) {
      throw new InvalidArgumentException(
          ErrorCode.OPTIONS_EXCLUSIVE,
          "execution",
          execution.toString(),
          "synchronous with returnHook",
          "unset one of them, because the hook already splits the operation");
    }
  }

  /** A builder with the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** A builder that starts from these options. */
  public Builder toBuilder() {
    Builder b = new Builder();
    b.experts = experts;
    b.format = format;
    b.scaleKind = scaleKind;
    b.scaleLayout = scaleLayout;
    b.globalScale = globalScale;
    b.deliverWeights = deliverWeights;
    b.cumulativeStats = cumulativeStats;
    b.waitStats = waitStats;
    b.returnHook = returnHook;
    b.execution = execution;
    return b;
  }

  /**
   * Number of experts of the call; default 0, those of the buffer in their placement. With another
   * number E, at most {@link BufferConfig#experts()}, every rank owns E/R consecutive experts; all
   * ranks pass the same. L in the shapes of results is then E/R.
   */
  public int experts() {
    return experts;
  }

  /** Row format at the receiver, default {@link RowFormat#FP8} as in DeepEP V1. */
  public RowFormat format() {
    return format;
  }

  /** FP8 scales, default {@link ScaleKind#FLOAT32}. */
  public ScaleKind scaleKind() {
    return scaleKind;
  }

  /**
   * Memory layout of the received scales, default {@link ScaleLayout#ROW_MAJOR}. Ranks may differ.
   */
  public ScaleLayout scaleLayout() {
    return scaleLayout;
  }

  /**
   * NVFP4: FP32 [1], the factor applied to x before block scaling, usually 448 * 6 / amax of the
   * whole tensor; null (the default): 1. Kernels read the factor of a GPU when they run, also in
   * each replay of a graph, and nothing checks that one; a factor of the host has to be positive
   * and finite.
   */
  public @Nullable Tensor globalScale() {
    return globalScale;
  }

  /**
   * {@link Layout#EXPERT_MAJOR}: whether rows arrive with their weights, {@link
   * LowLatencyDispatch#rowWeights()}; default false. The routing then needs weights, and all ranks
   * set this. {@link Layout#RANK_MAJOR} ignores this and delivers the weights that the routing has.
   */
  public boolean deliverWeights() {
    return deliverWeights;
  }

  /** INT32 [L], incremented by the tokens received per local expert; or null. */
  public @Nullable Tensor cumulativeStats() {
    return cumulativeStats;
  }

  /**
   * INT64 [R], incremented by the nanoseconds waited per source rank, also for a rank that the
   * operation masks; or null.
   */
  public @Nullable Tensor waitStats() {
    return waitStats;
  }

  /**
   * Whether the call only sends and {@link LowLatencyDispatch#hook()} receives; default false.
   * Excludes an asynchronous execution.
   */
  public boolean returnHook() {
    return returnHook;
  }

  /** Start, stream and return of the operation; default {@link Execution#SYNCHRONOUS}. */
  public Execution execution() {
    return execution;
  }

  @Override
  public String toString() {
    return "LowLatencyDispatchOptions[experts="
        + experts
        + ", format="
        + format
        + ", scaleKind="
        + scaleKind
        + ", scaleLayout="
        + scaleLayout
        + ", globalScale="
        + globalScale
        + ", deliverWeights="
        + deliverWeights
        + ", cumulativeStats="
        + cumulativeStats
        + ", waitStats="
        + waitStats
        + ", returnHook="
        + returnHook
        + ", execution="
        + execution
        + "]";
  }

  /** Collects options. */
  public static final class Builder {
    private int experts;
    private RowFormat format = RowFormat.FP8;
    private ScaleKind scaleKind = ScaleKind.FLOAT32;
    private ScaleLayout scaleLayout = ScaleLayout.ROW_MAJOR;
    private @Nullable Tensor globalScale;
    private boolean deliverWeights;
    private @Nullable Tensor cumulativeStats;
    private @Nullable Tensor waitStats;
    private boolean returnHook;
    private Execution execution = Execution.SYNCHRONOUS;

    private Builder() {}

    /** Number of experts of the call; 0 = those of the buffer. */
    public Builder experts(int value) {
      experts = value;
      return this;
    }

    /** Row format at the receiver. */
    public Builder format(RowFormat value) {
      format = value;
      return this;
    }

    /** FP8 scales. */
    public Builder scaleKind(ScaleKind value) {
      scaleKind = value;
      return this;
    }

    /** Memory layout of the received scales. */
    public Builder scaleLayout(ScaleLayout value) {
      scaleLayout = value;
      return this;
    }

    /** NVFP4 factor, FP32 [1]. */
    public Builder globalScale(Tensor value) {
      globalScale = value;
      return this;
    }

    /** Whether EXPERT_MAJOR rows arrive with their weights. */
    public Builder deliverWeights(boolean value) {
      deliverWeights = value;
      return this;
    }

    /** Tokens received per local expert, INT32 [L]. */
    public Builder cumulativeStats(Tensor value) {
      cumulativeStats = value;
      return this;
    }

    /** Nanoseconds waited per source rank, INT64 [R]. */
    public Builder waitStats(Tensor value) {
      waitStats = value;
      return this;
    }

    /** Whether the call only sends and the hook receives. */
    public Builder returnHook(boolean value) {
      returnHook = value;
      return this;
    }

    /** Start, stream and return of the operation. */
    public Builder execution(Execution value) {
      execution = value;
      return this;
    }

    /**
     * The options.
     *
     * @throws InvalidArgumentException if two options exclude each other, or {@code experts} is
     *     negative
     */
    public LowLatencyDispatchOptions build() {
      return new LowLatencyDispatchOptions(this);
    }
  }
}
