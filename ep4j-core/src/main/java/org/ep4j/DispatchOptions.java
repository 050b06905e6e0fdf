package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Options of {@link ExpertBuffer#dispatch(Tokens, Routing, DispatchOptions)}. Immutable; make one
 * and reuse it.
 *
 * @param layout row order at the receiver, default {@link Layout#FLAT}
 * @param sizing how the row count is settled, default {@link Sizing#EXACT}
 * @param expertAlignment multiple that counts per expert (and, EXPERT_MAJOR, group starts) are
 *     rounded up to, default 1
 * @param zeroPadding EXPERT_MAJOR: clear the rows between the groups, default false
 * @param scaleLayout how the scales of the received rows lie, default {@link
 *     ScaleLayout#ROW_MAJOR}; cached dispatches give the same. Ranks may differ
 * @param previousEvent event to wait for first
 * @param stream device stream to run on: the call returns once it is enqueued (EXACT: once the
 *     counts are known) and results are ready in the order of the stream; null = the buffer's own
 *     stream. Only for engines of devices
 * @param async return before completion; results wait for {@link Dispatch#event()}. Ids are checked
 *     when the operation runs: a bad one comes out of the event
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

  /** Checks the alignment. */
  public DispatchOptions {
    if (expertAlignment < 1) {
      throw new InvalidArgumentException(
          "expertAlignment", String.valueOf(expertAlignment), ">= 1", "use 1 for no alignment");
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

    /** How the row count is settled. */
    public Builder sizing(Sizing value) {
      sizing = value;
      return this;
    }

    /** Multiple that group sizes are rounded up to. */
    public Builder expertAlignment(int value) {
      expertAlignment = value;
      return this;
    }

    /** Clear padding rows (EXPERT_MAJOR). */
    public Builder zeroPadding(boolean value) {
      zeroPadding = value;
      return this;
    }

    /** How the scales of the received rows lie. */
    public Builder scaleLayout(ScaleLayout value) {
      scaleLayout = value;
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
    public DispatchOptions build() {
      return new DispatchOptions(
          layout, sizing, expertAlignment, zeroPadding, scaleLayout, previousEvent, stream, async);
    }
  }
}
