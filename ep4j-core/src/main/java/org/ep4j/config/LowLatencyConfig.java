package org.ep4j.config;

import java.util.Objects;
import org.ep4j.ExpertBuffer;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/** Limits of the low-latency operations of an {@link ExpertBuffer}: decoding. Immutable. */
public final class LowLatencyConfig {
  private final int maxTokens;
  private final boolean masking;

  private LowLatencyConfig(Builder b) {
    maxTokens = b.maxTokens;
    masking = b.masking;
    BufferConfig.check(
        ErrorCode.TOKEN_LIMIT,
        maxTokens >= 1,
        "lowLatency.maxTokens",
        maxTokens,
        ">= 1",
        "pass the largest decode batch, or leave lowLatency out");
  }

  /** At most {@code maxTokens} tokens per rank, without masking. */
  public static LowLatencyConfig of(int maxTokens) {
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
    b.masking = masking;
    return b;
  }

  /** Fixed maximum M of tokens per rank. */
  public int maxTokens() {
    return maxTokens;
  }

  /**
   * If true, an operation masks ranks that miss the deadline and completes without them; if false
   * (default), it throws.
   */
  public boolean masking() {
    return masking;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LowLatencyConfig c && maxTokens == c.maxTokens && masking == c.masking;
  }

  @Override
  public int hashCode() {
    return Objects.hash(maxTokens, masking);
  }

  @Override
  public String toString() {
    return "LowLatencyConfig[maxTokens=" + maxTokens + ", masking=" + masking + "]";
  }

  /** Collects a configuration. Required: maxTokens. */
  public static final class Builder {
    private int maxTokens;
    private boolean masking;

    private Builder() {}

    /** Fixed maximum of tokens per rank. */
    public Builder maxTokens(int value) {
      maxTokens = value;
      return this;
    }

    /** Whether late ranks are masked; otherwise the operation fails. */
    public Builder masking(boolean value) {
      masking = value;
      return this;
    }

    /**
     * The configuration.
     *
     * @throws InvalidArgumentException if the maximum is not positive
     */
    public LowLatencyConfig build() {
      return new LowLatencyConfig(this);
    }
  }
}
