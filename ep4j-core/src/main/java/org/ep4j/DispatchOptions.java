package org.ep4j;

import org.ep4j.config.BufferConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.Execution;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.ScaleLayout;

/**
 * Options of {@link ExpertBuffer#dispatch(Tokens, Routing, DispatchOptions)} and {@link
 * ExpertBuffer#dispatchGrouped(Tokens, Routing, DispatchOptions)}. Immutable; create one and reuse
 * it.
 */
public final class DispatchOptions {
  /** Exact row count, alignment 1, synchronous. */
  public static final DispatchOptions DEFAULT = builder().build();

  private final int experts;
  private final Sizing sizing;
  private final int expertAlignment;
  private final boolean zeroPadding;
  private final ScaleLayout scaleLayout;
  private final Execution execution;

  private DispatchOptions(Builder b) {
    experts = b.experts;
    sizing = b.sizing;
    expertAlignment = b.expertAlignment;
    zeroPadding = b.zeroPadding;
    scaleLayout = b.scaleLayout;
    execution = b.execution;
    checkExperts(experts);
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

  /** Requires a number of experts of a call, of either kind of operation. */
  static void checkExperts(int experts) {
    if (experts < 0) {
      throw new InvalidArgumentException(
          ErrorCode.CALL_EXPERTS,
          "experts",
          String.valueOf(experts),
          ">= 0",
          "use 0 for the experts of the buffer");
    }
  }

  /** A builder that starts from these options. */
  public Builder toBuilder() {
    Builder b = new Builder();
    b.experts = experts;
    b.sizing = sizing;
    b.expertAlignment = expertAlignment;
    b.zeroPadding = zeroPadding;
    b.scaleLayout = scaleLayout;
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

  /** How the row count is determined; default {@link Sizing#EXACT}. */
  public Sizing sizing() {
    return sizing;
  }

  /**
   * The counts per expert, and the starts of groups, are rounded up to multiples of this; default
   * 1.
   */
  public int expertAlignment() {
    return expertAlignment;
  }

  /** Grouped dispatch: whether the rows between the groups are cleared; default false. */
  public boolean zeroPadding() {
    return zeroPadding;
  }

  /**
   * Memory layout of the received scales, default {@link ScaleLayout#ROW_MAJOR}; cached dispatches
   * use the same. Ranks may differ.
   */
  public ScaleLayout scaleLayout() {
    return scaleLayout;
  }

  /** Start, stream and return of the operation; default {@link Execution#SYNCHRONOUS}. */
  public Execution execution() {
    return execution;
  }

  @Override
  public String toString() {
    return "DispatchOptions[experts="
        + experts
        + ", sizing="
        + sizing
        + ", expertAlignment="
        + expertAlignment
        + ", zeroPadding="
        + zeroPadding
        + ", scaleLayout="
        + scaleLayout
        + ", execution="
        + execution
        + "]";
  }

  /** Collects options. */
  public static final class Builder {
    private int experts;
    private Sizing sizing = Sizing.EXACT;
    private int expertAlignment = 1;
    private boolean zeroPadding;
    private ScaleLayout scaleLayout = ScaleLayout.ROW_MAJOR;
    private Execution execution = Execution.SYNCHRONOUS;

    private Builder() {}

    /** Number of experts of the call; 0 = those of the buffer. */
    public Builder experts(int value) {
      experts = value;
      return this;
    }

    /** How the row count is determined. */
    public Builder sizing(Sizing value) {
      sizing = value;
      return this;
    }

    /** Multiple to which counts per expert and starts of groups are rounded up. */
    public Builder expertAlignment(int value) {
      expertAlignment = value;
      return this;
    }

    /** Whether padding rows of a grouped dispatch are cleared. */
    public Builder zeroPadding(boolean value) {
      zeroPadding = value;
      return this;
    }

    /** Memory layout of the received scales. */
    public Builder scaleLayout(ScaleLayout value) {
      scaleLayout = value;
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
     * @throws InvalidArgumentException if the alignment is not positive, or {@code experts} is
     *     negative
     */
    public DispatchOptions build() {
      return new DispatchOptions(this);
    }
  }
}
