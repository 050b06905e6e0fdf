package org.ep4j;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.Execution;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Options of {@link ExpertBuffer#lowLatencyCombine}. Immutable; create one and reuse it.
 *
 * <p>After {@link ExpertBuffer#lowLatencyDispatchByRank} rows are already BF16 partial sums: {@code
 * logFmt}, {@code partialRounding} and {@link CombineOrder#EXPERT} are then invalid.
 */
public final class LowLatencyCombineOptions {
  /** BF16 rows, copied, exact order, received by the call itself. */
  public static final LowLatencyCombineOptions DEFAULT = builder().build();

  private final boolean logFmt;
  private final boolean zeroCopy;
  private final boolean partialRounding;
  private final CombineOrder order;
  private final @Nullable Tensor out;
  private final @Nullable Tensor waitStats;
  private final boolean returnHook;
  private final Execution execution;

  private LowLatencyCombineOptions(Builder b) {
    logFmt = b.logFmt;
    zeroCopy = b.zeroCopy;
    partialRounding = b.partialRounding;
    order = b.order;
    out = b.out;
    waitStats = b.waitStats;
    returnHook = b.returnHook;
    execution = b.execution;
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
    if (order == CombineOrder.RANK) {
      throw new InvalidArgumentException(
          ErrorCode.COMBINE_ORDER,
          "order",
          "RANK",
          "CHOICE or EXPERT in low latency",
          "use partialRounding for sums of ranks");
    }
    if (order == CombineOrder.EXPERT && partialRounding) {
      throw new InvalidArgumentException(
          ErrorCode.OPTIONS_EXCLUSIVE,
          "order",
          "EXPERT",
          "CHOICE with partialRounding",
          "unset one of them, because partial sums follow the ranks");
    }
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
    b.logFmt = logFmt;
    b.zeroCopy = zeroCopy;
    b.partialRounding = partialRounding;
    b.order = order;
    b.out = out;
    b.waitStats = waitStats;
    b.returnHook = returnHook;
    b.execution = execution;
    return b;
  }

  /**
   * Whether rows are sent as LogFMT-10, default false; excludes {@code zeroCopy} and {@code
   * partialRounding}.
   */
  public boolean logFmt() {
    return logFmt;
  }

  /** Whether the rows are in {@link ExpertBuffer#lowLatencyCombineBuffer}, default false. */
  public boolean zeroCopy() {
    return zeroCopy;
  }

  /**
   * Whether each rank sums its rows of a token in top-k order and rounds the partial sum to BF16;
   * partial sums are added in rank order. Changes result bits; default false.
   */
  public boolean partialRounding() {
    return partialRounding;
  }

  /** Order of the sums: {@link CombineOrder#CHOICE} (default) or {@link CombineOrder#EXPERT}. */
  public CombineOrder order() {
    return order;
  }

  /**
   * Target of the sums, BF16 [T, H]; null = memory of the buffer, valid until the second next
   * low-latency combine.
   */
  public @Nullable Tensor out() {
    return out;
  }

  /**
   * INT64 [R], incremented by the nanoseconds waited per source rank, also for a rank that the
   * operation masks; or null.
   */
  public @Nullable Tensor waitStats() {
    return waitStats;
  }

  /**
   * Whether the call only sends and {@link LowLatencyCombine#hook()} receives and sums; default
   * false. Excludes an asynchronous execution.
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
    return "LowLatencyCombineOptions[logFmt="
        + logFmt
        + ", zeroCopy="
        + zeroCopy
        + ", partialRounding="
        + partialRounding
        + ", order="
        + order
        + ", out="
        + out
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
    private boolean logFmt;
    private boolean zeroCopy;
    private boolean partialRounding;
    private CombineOrder order = CombineOrder.CHOICE;
    private @Nullable Tensor out;
    private @Nullable Tensor waitStats;
    private boolean returnHook;
    private Execution execution = Execution.SYNCHRONOUS;

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

    /** Order of the sums. */
    public Builder order(CombineOrder value) {
      order = value;
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

    /** Start, stream and return of the operation. */
    public Builder execution(Execution value) {
      execution = value;
      return this;
    }

    /**
     * The options.
     *
     * @throws InvalidArgumentException if two options exclude each other
     */
    public LowLatencyCombineOptions build() {
      return new LowLatencyCombineOptions(this);
    }
  }
}
