package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Options of {@link ExpertBuffer#lowLatencyDispatch}. Immutable; create one and reuse it.
 *
 * @param layout order of the received rows and shape of the rows that combine accepts, default
 *     {@link RowLayout#EXPERT_MAJOR}; the same on all ranks
 * @param format row format at the receiver, default {@link RowFormat#FP8} as in DeepEP V1
 * @param scaleKind FP8 scales, default {@link ScaleKind#FLOAT32}
 * @param scaleLayout memory layout of the received scales, default {@link ScaleLayout#ROW_MAJOR}.
 *     Ranks may differ
 * @param globalScale NVFP4: factor applied to x before block scaling, usually 448 * 6 / amax of the
 *     whole tensor; default 1
 * @param cumulativeStats INT32 [L], incremented by the tokens received per local expert
 * @param waitStats INT64 [R], incremented by the nanoseconds waited per source rank
 * @param returnHook the call only sends; {@link LowLatencyDispatch#hook()} receives
 * @param previousEvent event that the operation waits for first
 * @param stream device stream for the call and the hook: both return after their work is enqueued,
 *     and results are ready in stream order; null = the buffer's own stream. Only for device
 *     engines
 * @param async return before completion; excludes {@code returnHook}
 */
public record LowLatencyDispatchOptions(
    RowLayout layout,
    RowFormat format,
    ScaleKind scaleKind,
    ScaleLayout scaleLayout,
    float globalScale,
    @Nullable Tensor cumulativeStats,
    @Nullable Tensor waitStats,
    boolean returnHook,
    @Nullable Event previousEvent,
    @Nullable DeviceStream stream,
    boolean async) {
  /** FP8 with FP32 scales, received by the call itself. */
  public static final LowLatencyDispatchOptions DEFAULT = builder().build();

  /**
   * Checks the combination.
   *
   * @throws InvalidArgumentException if two options exclude each other, or {@code globalScale} is
   *     not positive and finite
   */
  public LowLatencyDispatchOptions {
    if (returnHook && async) {
      throw new InvalidArgumentException(
          ErrorCode.OPTIONS_EXCLUSIVE,
          "async",
          "true",
          "false with returnHook",
          "unset one of them, because the hook already splits the operation");
    }
    if (!(globalScale > 0) || Float.isInfinite(globalScale)) {
      throw new InvalidArgumentException(
          ErrorCode.GLOBAL_SCALE,
          "globalScale",
          String.valueOf(globalScale),
          "finite and > 0",
          "use 448 * 6 / amax");
    }
  }

  /** A builder with the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** Collects options. */
  public static final class Builder {
    private RowLayout layout = RowLayout.EXPERT_MAJOR;
    private RowFormat format = RowFormat.FP8;
    private ScaleKind scaleKind = ScaleKind.FLOAT32;
    private ScaleLayout scaleLayout = ScaleLayout.ROW_MAJOR;
    private float globalScale = 1f;
    private @Nullable Tensor cumulativeStats;
    private @Nullable Tensor waitStats;
    private boolean returnHook;
    private @Nullable Event previousEvent;
    private @Nullable DeviceStream stream;
    private boolean async;

    private Builder() {}

    /** Order of the received rows. */
    public Builder layout(RowLayout value) {
      layout = value;
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

    /** NVFP4 factor. */
    public Builder globalScale(float value) {
      globalScale = value;
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
    public LowLatencyDispatchOptions build() {
      return new LowLatencyDispatchOptions(
          layout,
          format,
          scaleKind,
          scaleLayout,
          globalScale,
          cumulativeStats,
          waitStats,
          returnHook,
          previousEvent,
          stream,
          async);
    }
  }
}
