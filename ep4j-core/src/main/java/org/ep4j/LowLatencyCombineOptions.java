package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Options of {@link ExpertBuffer#lowLatencyCombine}. Immutable; create one and reuse it.
 *
 * <p>After a dispatch with {@link RowLayout#RANK_MAJOR} rows are already BF16 partial sums: {@code
 * logFmt} and {@code partialRounding} are then invalid.
 *
 * @param logFmt send rows as LogFMT-10, default false; excludes {@code zeroCopy}
 * @param zeroCopy the rows are in {@link ExpertBuffer#lowLatencyCombineBuffer}, default false
 * @param partialRounding each rank sums its rows of a token in top-k order and rounds the partial
 *     sum to BF16; partial sums are added in rank order. Changes result bits; default false
 * @param out target of the sums, BF16 [T, H]; null = memory of the buffer, valid until the second
 *     next low-latency combine
 * @param waitStats INT64 [R], incremented by the nanoseconds waited per source rank
 * @param returnHook the call only sends; {@link LowLatencyCombine#hook()} receives and sums
 * @param previousEvent event that the operation waits for first
 * @param stream device stream for the call and the hook: both return after their work is enqueued,
 *     and results are ready in stream order; null = the buffer's own stream. Only for device
 *     engines
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
  /** BF16 rows, copied, exact order, received by the call itself. */
  public static final LowLatencyCombineOptions DEFAULT = builder().build();

  /**
   * Checks the combination.
   *
   * @throws InvalidArgumentException if two options exclude each other
   */
  public LowLatencyCombineOptions {
    if (logFmt && zeroCopy) {
      throw new InvalidArgumentException(
          ErrorCode.OPTIONS_EXCLUSIVE,
          "logFmt",
          "true",
          "false with zeroCopy",
          "unset one of them, because encoded rows cannot be sent in place");
    }
    if (logFmt && partialRounding) {
      throw new InvalidArgumentException(
          ErrorCode.OPTIONS_EXCLUSIVE,
          "logFmt",
          "true",
          "false with partialRounding",
          "unset one of them, because partial sums are sent as BF16");
    }
    if (returnHook && async) {
      throw new InvalidArgumentException(
          ErrorCode.OPTIONS_EXCLUSIVE,
          "async",
          "true",
          "false with returnHook",
          "unset one of them, because the hook already splits the operation");
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

    /** Whether rows are sent as LogFMT-10. */
    public Builder logFmt(boolean value) {
      logFmt = value;
      return this;
    }

    /** Whether rows are in the buffer's own combine region. */
    public Builder zeroCopy(boolean value) {
      zeroCopy = value;
      return this;
    }

    /** Whether ranks round partial sums. */
    public Builder partialRounding(boolean value) {
      partialRounding = value;
      return this;
    }

    /** Target of the sums. */
    public Builder out(Tensor value) {
      out = value;
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
