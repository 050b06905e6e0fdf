package org.ep4j.config;

import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.Set;
import org.ep4j.CombineOrder;
import org.ep4j.Dispatch;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.tensor.DType;

/**
 * Limits of the high-throughput operations of an {@link ExpertBuffer}: prefill and training.
 * Immutable.
 */
public final class HighThroughputConfig {
  private final int maxTokens;
  private final DType rowDType;
  private final Set<Layout> layouts;
  private final long maxReceiveRows;
  private final int expertAlignment;
  private final boolean combineInPlace;
  private final int lostRanks;

  private HighThroughputConfig(Builder b) {
    maxTokens = b.maxTokens;
    rowDType = b.rowDType;
    layouts = Collections.unmodifiableSet(EnumSet.copyOf(b.layouts));
    maxReceiveRows = b.maxReceiveRows;
    expertAlignment = b.expertAlignment;
    combineInPlace = b.combineInPlace;
    lostRanks = b.lostRanks;
    BufferConfig.check(
        ErrorCode.TOKEN_LIMIT,
        maxTokens >= 1,
        "highThroughput.maxTokens",
        maxTokens,
        ">= 1",
        "pass the largest batch, or leave highThroughput out");
    BufferConfig.check(
        ErrorCode.ROW_DTYPE,
        rowDType == DType.BF16
            || rowDType == DType.FP16
            || rowDType == DType.FP32
            || rowDType == DType.FP8_E4M3
            || rowDType == DType.NVFP4,
        "highThroughput.rowDType",
        rowDType,
        "BF16, FP16, FP32, FP8_E4M3 or NVFP4",
        "choose a payload type");
    BufferConfig.check(
        ErrorCode.EXPERT_ALIGNMENT,
        expertAlignment >= 1,
        "highThroughput.expertAlignment",
        expertAlignment,
        ">= 1",
        "use 1 for no alignment");
    BufferConfig.check(
        ErrorCode.BUFFER_SETTING,
        lostRanks >= 0,
        "highThroughput.lostRanks",
        lostRanks,
        ">= 0",
        "use 0 for no memory beyond that of all ranks");
  }

  /** At most {@code maxTokens} tokens per rank, otherwise the defaults: FLAT dispatches alone. */
  public static HighThroughputConfig of(int maxTokens) {
    return builder().maxTokens(maxTokens).build();
  }

  /** A builder with the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** A builder that starts from this configuration. */
  public Builder toBuilder() {
    Builder b = new Builder();
    b.maxTokens = maxTokens;
    b.rowDType = rowDType;
    b.layouts = EnumSet.copyOf(layouts);
    b.maxReceiveRows = maxReceiveRows;
    b.expertAlignment = expertAlignment;
    b.combineInPlace = combineInPlace;
    b.lostRanks = lostRanks;
    return b;
  }

  /** Maximum number of tokens that a rank passes to one dispatch. */
  public int maxTokens() {
    return maxTokens;
  }

  /** Widest row type that is sent; determines the size of the receive region; default BF16. */
  public DType rowDType() {
    return rowDType;
  }

  /**
   * Layouts that dispatches may have; default FLAT. Other dispatches are refused with {@link
   * ErrorCode#LAYOUT_NOT_DECLARED}. The worst case of EXPERT_MAJOR is up to top-k times that of
   * FLAT.
   */
  public Set<Layout> layouts() {
    return layouts;
  }

  /**
   * Rows of the receive region; empty (default) = the worst case of {@link #layouts()} for {@code
   * maxTokens}. A larger number reserves the worst case too. With fewer, a dispatch to which more
   * rows are routed ends with {@link ReceiveOverflowException}, which names the number that
   * suffices; with {@link Sizing#atMost} {@link Dispatch#overflow()} reports it. An open buffer
   * returns the number of rows that its region holds.
   */
  public OptionalLong maxReceiveRows() {
    return maxReceiveRows == 0 ? OptionalLong.empty() : OptionalLong.of(maxReceiveRows);
  }

  /** Maximum expert alignment of grouped dispatches; default 128. */
  public int expertAlignment() {
    return expertAlignment;
  }

  /**
   * Whether {@link Dispatch#combineInput} is the memory of {@link Dispatch#x()}; default false. On
   * GPUs of one node the ranks then read FLAT rows, and EXPERT_MAJOR rows if the promise below
   * holds for them, where they lie instead of sending them, which is faster with few SMs. {@link
   * CombineOrder#EXPERT} reads EXPERT_MAJOR rows there always. The caller writes a row only once
   * nothing reads the received rows that share its memory: with payloads narrower than the result,
   * row i of the result covers several received rows. Rows wider than {@link #rowDType()} keep
   * memory of their own.
   *
   * <p>With {@link Layout#FLAT} alone in {@link #layouts()}, the default, it is a promise, and so
   * it is with {@link Layout#EXPERT_MAJOR} alone if there are at least {@link BufferConfig#topK()}
   * ranks: no memory is reserved for other rows, and a combine of rows elsewhere, or of wider ones,
   * is refused with {@link ErrorCode#ROWS_NOT_IN_REGION}. GPUs of a node then need bulk copies
   * (compute capability 9.0).
   */
  public boolean combineInPlace() {
    return combineInPlace;
  }

  /**
   * Ranks of each node that may be lost while {@link ExpertBuffer#reset} continues; default 0. For
   * GPUs of several nodes: the ranks that a node has left take over the exchange with other nodes
   * of those that it has lost, and need memory for it, which is reserved when the buffer opens.
   * Without that memory {@code reset()} refuses with {@link ErrorCode#RESET_UNSUPPORTED} where a
   * rank would exchange tokens with more ranks than before, as always between nodes of one size.
   * Nodes that are lost as a whole need none.
   *
   * <p>At most one less than the ranks of the smallest node, on one node less than all ranks. The
   * host engine continues after any loss and ignores the setting.
   */
  public int lostRanks() {
    return lostRanks;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof HighThroughputConfig c
        && maxTokens == c.maxTokens
        && rowDType == c.rowDType
        && layouts.equals(c.layouts)
        && maxReceiveRows == c.maxReceiveRows
        && expertAlignment == c.expertAlignment
        && combineInPlace == c.combineInPlace
        && lostRanks == c.lostRanks;
  }

  @Override
  public int hashCode() {
    return Objects.hash(
        maxTokens, rowDType, layouts, maxReceiveRows, expertAlignment, combineInPlace, lostRanks);
  }

  @Override
  public String toString() {
    return "HighThroughputConfig[maxTokens="
        + maxTokens
        + ", rowDType="
        + rowDType
        + ", layouts="
        + layouts
        + ", maxReceiveRows="
        + (maxReceiveRows == 0 ? "worst case" : Long.toString(maxReceiveRows))
        + ", expertAlignment="
        + expertAlignment
        + ", combineInPlace="
        + combineInPlace
        + ", lostRanks="
        + lostRanks
        + "]";
  }

  /** Collects a configuration. Required: maxTokens. */
  public static final class Builder {
    private int maxTokens;
    private DType rowDType = DType.BF16;
    private EnumSet<Layout> layouts = EnumSet.of(Layout.FLAT);
    private long maxReceiveRows;
    private int expertAlignment = 128;
    private boolean combineInPlace;
    private int lostRanks;

    private Builder() {}

    /** Maximum number of tokens per rank. */
    public Builder maxTokens(int value) {
      maxTokens = value;
      return this;
    }

    /** Widest row type that is sent. */
    public Builder rowDType(DType value) {
      rowDType = value;
      return this;
    }

    /**
     * Layouts that dispatches may have; without this call, FLAT.
     *
     * @param values FLAT, EXPERT_MAJOR or both
     * @throws InvalidArgumentException if there is none, or RANK_MAJOR is among them
     */
    public Builder layouts(Layout... values) {
      List<Layout> given = List.of(values);
      BufferConfig.check(
          ErrorCode.BUFFER_SETTING,
          !given.isEmpty() && !given.contains(Layout.RANK_MAJOR),
          "highThroughput.layouts",
          given,
          "FLAT, EXPERT_MAJOR or both",
          "name the layouts of the dispatches");
      layouts = EnumSet.copyOf(given);
      return this;
    }

    /**
     * Rows of the receive region; without this call, and where the number exceeds it, the worst
     * case.
     *
     * @throws InvalidArgumentException if the number is not positive
     */
    public Builder maxReceiveRows(long value) {
      BufferConfig.check(
          ErrorCode.TOKEN_LIMIT,
          value >= 1,
          "highThroughput.maxReceiveRows",
          value,
          ">= 1",
          "leave it out for the worst case");
      maxReceiveRows = value;
      return this;
    }

    /** Maximum expert alignment. */
    public Builder expertAlignment(int value) {
      expertAlignment = value;
      return this;
    }

    /** Whether {@link Dispatch#combineInput} is the memory of the received rows. */
    public Builder combineInPlace(boolean value) {
      combineInPlace = value;
      return this;
    }

    /** Ranks of each node that may be lost while {@link ExpertBuffer#reset} continues. */
    public Builder lostRanks(int value) {
      lostRanks = value;
      return this;
    }

    /**
     * The configuration.
     *
     * @throws InvalidArgumentException if a value is out of range
     */
    public HighThroughputConfig build() {
      return new HighThroughputConfig(this);
    }
  }
}
