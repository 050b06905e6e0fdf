package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Options of {@link ExpertBuffer#lowLatencyDispatch}. Immutable; make one and reuse it.
 *
 * @param layout where the received rows lie, and what their combine takes, default {@link
 *     RowLayout#EXPERT_MAJOR}; the same on all ranks
 * @param format what becomes of the BF16 rows, default {@link RowFormat#FP8} as in the reference
 * @param scaleKind FP8 scales, default {@link ScaleKind#FLOAT32}
 * @param scaleLayout how the received scales lie, default {@link ScaleLayout#ROW_MAJOR}. Ranks may
 *     differ
 * @param globalScale NVFP4: the factor that x is multiplied with before block scaling, usually 448
 *     * 6 / amax of the whole tensor; default 1
 * @param cumulativeStats INT32 [L], grows by the tokens received per local expert
 * @param waitStats INT64 [R], grows by the nanoseconds waited per source rank
 * @param returnHook the call only sends; {@link LowLatencyDispatch#hook()} receives
 * @param previousEvent event to wait for first
 * @param stream device stream to run on, the hook too: calls return once their work is enqueued and
 *     results are ready in the order of the stream; null = the buffer's own stream. Only for
 *     engines of devices
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
  /** FP8 with FP32 scales, received in the call. */
  public static final LowLatencyDispatchOptions DEFAULT = builder().build();

  /** Checks the combination. */
  public LowLatencyDispatchOptions {
    if (returnHook && async) {
      throw new InvalidArgumentException(
          "async", "true", "false with returnHook", "the hook already splits the operation");
    }
    if (!(globalScale > 0) || Float.isInfinite(globalScale)) {
      throw new InvalidArgumentException(
          "globalScale", String.valueOf(globalScale), "finite and > 0", "use 448*6/amax");
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

    /** Where the received rows lie. */
    public Builder layout(RowLayout value) {
      layout = value;
      return this;
    }

    /** What becomes of the rows. */
    public Builder format(RowFormat value) {
      format = value;
      return this;
    }

    /** FP8 scales. */
    public Builder scaleKind(ScaleKind value) {
      scaleKind = value;
      return this;
    }

    /** How the received scales lie. */
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

    /** Only send; the hook receives. */
    public Builder returnHook(boolean value) {
      returnHook = value;
      return this;
    }

    /** Event to wait for first. */
    public Builder previousEvent(Event value) {
      previousEvent = value;
      return this;
    }

    /** Device stream to run on. */
    public Builder stream(DeviceStream value) {
      stream = value;
      return this;
    }

    /** Return before completion. */
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
