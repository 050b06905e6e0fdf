package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Options of {@link ExpertBuffer#lowLatencyCombine}. Immutable; make one and reuse it.
 *
 * <p>After a dispatch with {@link RowLayout#RANK_MAJOR} rows are partial sums in BF16 already:
 * {@code logFmt} and {@code partialRounding} are refused.
 *
 * @param logFmt rows travel as LogFMT-10, default false; excludes {@code zeroCopy}
 * @param zeroCopy the rows lie in {@link ExpertBuffer#lowLatencyCombineBuffer}, default false
 * @param partialRounding each rank sums its rows of a token in top-k order and rounds the partial
 *     to BF16; partials are added in rank order. Changes bits; default false
 * @param out where the sums go, BF16 [T, H]; null = memory of the buffer, valid until the second
 *     next low-latency combine
 * @param waitStats INT64 [R], grows by the nanoseconds waited per source rank
 * @param returnHook the call only sends; {@link LowLatencyCombine#hook()} receives and sums
 * @param previousEvent event to wait for first
 * @param stream device stream to run on, the hook too: calls return once their work is enqueued and
 *     results are ready in the order of the stream; null = the buffer's own stream. Only for
 *     engines of devices
 * @param async return before completion; excludes {@code returnHook}
 */
public record LowLatencyCombineOptions(
    boolean logFmt,
    boolean zeroCopy,
    boolean partialRounding,
    @Nullable Tensor out,
    @Nullable Tensor waitStats,
    boolean returnHook,
    @Nullable Event previousEvent,
    @Nullable DeviceStream stream,
    boolean async) {
  /** BF16 rows, copied, exact order, received in the call. */
  public static final LowLatencyCombineOptions DEFAULT = builder().build();

  /** Checks the combination. */
  public LowLatencyCombineOptions {
    if (logFmt && zeroCopy) {
      throw new InvalidArgumentException(
          "logFmt", "true", "false with zeroCopy", "encoded rows cannot be sent in place");
    }
    if (logFmt && partialRounding) {
      throw new InvalidArgumentException(
          "logFmt", "true", "false with partialRounding", "partial sums travel as BF16");
    }
    if (returnHook && async) {
      throw new InvalidArgumentException(
          "async", "true", "false with returnHook", "the hook already splits the operation");
    }
  }

  /** A builder with the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** Collects options. */
  public static final class Builder {
    private boolean logFmt;
    private boolean zeroCopy;
    private boolean partialRounding;
    private @Nullable Tensor out;
    private @Nullable Tensor waitStats;
    private boolean returnHook;
    private @Nullable Event previousEvent;
    private @Nullable DeviceStream stream;
    private boolean async;

    private Builder() {}

    /** Rows travel as LogFMT-10. */
    public Builder logFmt(boolean value) {
      logFmt = value;
      return this;
    }

    /** Rows lie in the buffer's own combine region. */
    public Builder zeroCopy(boolean value) {
      zeroCopy = value;
      return this;
    }

    /** Whether ranks round partial sums. */
    public Builder partialRounding(boolean value) {
      partialRounding = value;
      return this;
    }

    /** Where the sums go. */
    public Builder out(Tensor value) {
      out = value;
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
    public LowLatencyCombineOptions build() {
      return new LowLatencyCombineOptions(
          logFmt,
          zeroCopy,
          partialRounding,
          out,
          waitStats,
          returnHook,
          previousEvent,
          stream,
          async);
    }
  }
}
