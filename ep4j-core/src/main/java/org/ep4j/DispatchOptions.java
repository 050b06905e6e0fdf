package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Options of {@link ExpertBuffer#dispatch(Tokens, Routing, DispatchOptions)}. Immutable; create one
 * and reuse it.
 *
 * @param layout row order at the receiver, default {@link Layout#FLAT}
 * @param sizing how the row count is determined, default {@link Sizing#EXACT}
 * @param expertAlignment the counts per expert (and, EXPERT_MAJOR, the group starts) are rounded up
 *     to multiples of this; default 1
 * @param zeroPadding EXPERT_MAJOR: clear the rows between the groups; default false
 * @param scaleLayout memory layout of the received scales, default {@link ScaleLayout#ROW_MAJOR};
 *     cached dispatches use the same. Ranks may differ
 * @param previousEvent event that the operation waits for first
 * @param stream device stream to run on: the call returns after the work is enqueued (EXACT: after
 *     the counts are known), and results are ready in stream order; null = the buffer's own stream.
 *     Only for device engines
 * @param async return before completion; accessors of the result wait for {@link Dispatch#event()}.
 *     Expert ids are checked when the operation runs: the event throws the error of an invalid id
 */
public record DispatchOptions(
    Layout layout,
    Sizing sizing,
    int expertAlignment,
    boolean zeroPadding,
    ScaleLayout scaleLayout,
    @Nullable Event previousEvent,
    @Nullable DeviceStream stream,
    boolean async) {
  /** FLAT, EXACT, alignment 1, synchronous. */
  public static final DispatchOptions DEFAULT = builder().build();

  /**
   * Checks the alignment.
   *
   * @throws InvalidArgumentException if the alignment is not positive
   */
  public DispatchOptions {
    if (expertAlignment < 1) {
      throw new InvalidArgumentException(
          ErrorCode.EXPERT_ALIGNMENT,
          "expertAlignment",
          String.valueOf(expertAlignment),
          ">= 1",
          "use 1 for no alignment");
    }
  }

  /** A builder with the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** Collects options. */
  public static final class Builder {
    private Layout layout = Layout.FLAT;
    private Sizing sizing = Sizing.EXACT;
    private int expertAlignment = 1;
    private boolean zeroPadding;
    private ScaleLayout scaleLayout = ScaleLayout.ROW_MAJOR;
    private @Nullable Event previousEvent;
    private @Nullable DeviceStream stream;
    private boolean async;

    private Builder() {}

    /** Row order at the receiver. */
    public Builder layout(Layout value) {
      layout = value;
      return this;
    }

    /** How the row count is determined. */
    public Builder sizing(Sizing value) {
      sizing = value;
      return this;
    }

    /** Multiple to which group sizes are rounded up. */
    public Builder expertAlignment(int value) {
      expertAlignment = value;
      return this;
    }

    /** Whether padding rows are cleared (EXPERT_MAJOR). */
    public Builder zeroPadding(boolean value) {
      zeroPadding = value;
      return this;
    }

    /** Memory layout of the received scales. */
    public Builder scaleLayout(ScaleLayout value) {
      scaleLayout = value;
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
    public DispatchOptions build() {
      return new DispatchOptions(
          layout, sizing, expertAlignment, zeroPadding, scaleLayout, previousEvent, stream, async);
    }
  }
}
