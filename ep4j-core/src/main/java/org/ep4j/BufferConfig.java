package org.ep4j;

import java.time.Duration;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Shape and limits of an {@link ExpertBuffer}. Every rank passes the same values; {@link
 * ExpertBuffer#open} compares them. Immutable.
 *
 * @param hidden elements per row H
 * @param topK maximum number of choices per token K, 1 to 64
 * @param placement experts and their ranks; null until the world size is known
 * @param experts number of experts E
 * @param maxTokens maximum number of tokens that a rank passes to one high-throughput dispatch; 0 =
 *     high-throughput operations are not used
 * @param rowDType widest row type that is sent; determines the size of the receive region; default
 *     BF16
 * @param maxReceiveRows rows of the receive region; 0 = the worst case for {@code maxTokens}
 * @param expertAlignment maximum expert alignment of EXPERT_MAJOR dispatches; default 128
 * @param lowLatencyMaxTokens fixed maximum M of tokens per rank in low-latency operations; 0 =
 *     low-latency operations are not used
 * @param masking if true, a low-latency operation masks ranks that miss the deadline and completes
 *     without them; if false, it throws
 * @param timeout how long an operation waits for a silent peer; default 30 s
 * @param parallelism SMs (CUDA) or threads (host) that an operation may use; 0 = the engine chooses
 * @param engine {@code auto}, {@code host} or {@code cuda}
 * @param ranksPerNode consecutive ranks that share memory and form a node; the last node may have
 *     fewer. 0 (default): the ranks of a host form a node
 * @param wire kind of wire between nodes; {@link org.ep4j.wire.WireConfig#wire()} lists the kinds
 *     and defines {@code auto} (default)
 * @param backend how GPUs reach each other: {@code direct}, {@code nccl} or {@code nvshmem}. {@code
 *     auto} (default) uses the first of these that is set: system property {@code ep4j.backend},
 *     environment variables {@code EP4J_BACKEND} and {@code DEEP_EP_BACKEND}; otherwise {@code
 *     direct}. Ignored by engines other than {@code cuda}
 */
public record BufferConfig(
    int hidden,
    int topK,
    int experts,
    @Nullable ExpertPlacement placement,
    int maxTokens,
    DType rowDType,
    long maxReceiveRows,
    int expertAlignment,
    int lowLatencyMaxTokens,
    boolean masking,
    Duration timeout,
    int parallelism,
    String engine,
    int ranksPerNode,
    String wire,
    String backend) {
  /** Maximum top-k. */
  public static final int MAX_TOP_K = 64;

  private static final Pattern BACKEND = Pattern.compile("[a-z0-9_-]+");

  /**
   * Checks each field on its own; {@link ExpertBuffer#open} checks what depends on the world size.
   *
   * @throws InvalidArgumentException if a value is out of range
   */
  public BufferConfig {
    check(
        ErrorCode.HIDDEN_SIZE,
        hidden >= 1,
        "hidden",
        hidden,
        ">= 1",
        "pass the row length of the model");
    check(
        ErrorCode.ROW_DTYPE,
        rowDType == DType.BF16
            || rowDType == DType.FP16
            || rowDType == DType.FP32
            || rowDType == DType.FP8_E4M3
            || rowDType == DType.NVFP4,
        "rowDType",
        rowDType,
        "BF16, FP16, FP32, FP8_E4M3 or NVFP4",
        "choose a payload type");
    int multiple = 128 / rowDType.bits();
    check(
        ErrorCode.HIDDEN_SIZE,
        hidden % multiple == 0,
        "hidden",
        hidden,
        "a multiple of " + multiple + " for " + rowDType + " rows (16-byte rows)",
        "pad to " + (hidden + multiple - hidden % multiple));
    check(
        ErrorCode.TOP_K,
        topK >= 1 && topK <= MAX_TOP_K,
        "topK",
        topK,
        "1.." + MAX_TOP_K,
        "choose 1 to " + MAX_TOP_K + " experts per token");
    check(
        ErrorCode.EXPERT_PLACEMENT,
        experts >= 1,
        "experts",
        experts,
        ">= 1",
        "pass the number of experts");
    check(
        ErrorCode.TOP_K,
        topK <= experts,
        "topK",
        topK,
        "<= experts (" + experts + ")",
        "choose fewer experts");
    check(
        ErrorCode.EXPERT_PLACEMENT,
        placement == null || placement.experts() == experts,
        "placement",
        placement,
        "a table of " + experts + " experts",
        "pass the same number of experts in both");
    check(
        ErrorCode.TOKEN_LIMIT,
        maxTokens >= 0,
        "maxTokens",
        maxTokens,
        ">= 0",
        "pass the largest batch");
    check(
        ErrorCode.TOKEN_LIMIT,
        lowLatencyMaxTokens >= 0,
        "lowLatencyMaxTokens",
        lowLatencyMaxTokens,
        ">= 0",
        "pass the largest decode batch");
    check(
        ErrorCode.TOKEN_LIMIT,
        maxTokens > 0 || lowLatencyMaxTokens > 0,
        "maxTokens",
        maxTokens,
        "positive unless lowLatencyMaxTokens is",
        "set the maximum of at least one kind of operation");
    check(
        ErrorCode.HIDDEN_SIZE,
        lowLatencyMaxTokens == 0 || hidden % 128 == 0,
        "hidden",
        hidden,
        "a multiple of 128 for low-latency operations",
        "pad to " + (hidden + 127) / 128 * 128);
    check(
        ErrorCode.TOKEN_LIMIT,
        maxReceiveRows >= 0,
        "maxReceiveRows",
        maxReceiveRows,
        ">= 0",
        "use 0 for the worst case");
    check(
        ErrorCode.EXPERT_ALIGNMENT,
        expertAlignment >= 1,
        "expertAlignment",
        expertAlignment,
        ">= 1",
        "use 1 for no alignment");
    check(
        ErrorCode.BUFFER_SETTING,
        !timeout.isNegative() && !timeout.isZero(),
        "timeout",
        timeout,
        "positive",
        "pass the deadline of a wait");
    check(
        ErrorCode.BUFFER_SETTING,
        parallelism >= 0,
        "parallelism",
        parallelism,
        ">= 0",
        "use 0 for the engine's own choice");
    check(
        ErrorCode.BUFFER_SETTING,
        ranksPerNode >= 0,
        "ranksPerNode",
        ranksPerNode,
        ">= 0",
        "use 0 for the ranks of a host");
    check(
        ErrorCode.BUFFER_SETTING,
        !wire.isBlank(),
        "wire",
        "''",
        "a kind of wire",
        "leave the field out for 'auto'");
    check(
        ErrorCode.BUFFER_SETTING,
        BACKEND.matcher(backend).matches(),
        "backend",
        "'" + backend + "'",
        "a lower-case name: auto, direct, nccl or nvshmem",
        "leave the field out for 'auto'");
  }

  private static void check(
      ErrorCode code,
      boolean ok,
      String field,
      @Nullable Object value,
      String limit,
      String remedy) {
    if (!ok) {
      throw new InvalidArgumentException(code, field, String.valueOf(value), limit, remedy);
    }
  }

  /** A builder with the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** A builder that starts from this configuration. */
  public Builder toBuilder() {
    Builder b = new Builder();
    b.hidden = hidden;
    b.topK = topK;
    b.experts = experts;
    b.placement = placement;
    b.maxTokens = maxTokens;
    b.rowDType = rowDType;
    b.maxReceiveRows = maxReceiveRows;
    b.expertAlignment = expertAlignment;
    b.lowLatencyMaxTokens = lowLatencyMaxTokens;
    b.masking = masking;
    b.timeout = timeout;
    b.parallelism = parallelism;
    b.engine = engine;
    b.ranksPerNode = ranksPerNode;
    b.wire = wire;
    b.backend = backend;
    return b;
  }

  /** Collects a configuration. Required: hidden, topK, experts and a token maximum. */
  public static final class Builder {
    private int hidden;
    private int topK;
    private int experts;
    private @Nullable ExpertPlacement placement;
    private int maxTokens;
    private DType rowDType = DType.BF16;
    private long maxReceiveRows;
    private int expertAlignment = 128;
    private int lowLatencyMaxTokens;
    private boolean masking;
    private Duration timeout = Duration.ofSeconds(30);
    private int parallelism;
    private String engine = "auto";
    private int ranksPerNode;
    private String wire = "auto";
    private String backend = "auto";

    private Builder() {}

    /** Elements per row. */
    public Builder hidden(int value) {
      hidden = value;
      return this;
    }

    /** Maximum number of choices per token. */
    public Builder topK(int value) {
      topK = value;
      return this;
    }

    /** Number of experts, placed in consecutive blocks; clears an explicit placement. */
    public Builder experts(int value) {
      experts = value;
      placement = null;
      return this;
    }

    /** Explicit placement; also sets {@code experts}. */
    public Builder placement(ExpertPlacement value) {
      placement = value;
      experts = value.experts();
      return this;
    }

    /** Maximum number of tokens per rank in high-throughput operations. */
    public Builder maxTokens(int value) {
      maxTokens = value;
      return this;
    }

    /** Widest row type that is sent. */
    public Builder rowDType(DType value) {
      rowDType = value;
      return this;
    }

    /** Rows of the receive region; 0 = worst case. */
    public Builder maxReceiveRows(long value) {
      maxReceiveRows = value;
      return this;
    }

    /** Maximum expert alignment. */
    public Builder expertAlignment(int value) {
      expertAlignment = value;
      return this;
    }

    /** Fixed maximum of tokens per rank in low-latency operations. */
    public Builder lowLatencyMaxTokens(int value) {
      lowLatencyMaxTokens = value;
      return this;
    }

    /** Whether late ranks are masked; otherwise the operation fails. */
    public Builder masking(boolean value) {
      masking = value;
      return this;
    }

    /** How long an operation waits for a silent peer. */
    public Builder timeout(Duration value) {
      timeout = value;
      return this;
    }

    /** SMs or threads that an operation may use. */
    public Builder parallelism(int value) {
      parallelism = value;
      return this;
    }

    /** {@code auto}, {@code host} or {@code cuda}. */
    public Builder engine(String value) {
      engine = value;
      return this;
    }

    /** Consecutive ranks that form a node; 0 = the ranks of a host. */
    public Builder ranksPerNode(int value) {
      ranksPerNode = value;
      return this;
    }

    /** Kind of wire between nodes. */
    public Builder wire(String value) {
      wire = value;
      return this;
    }

    /** How GPUs reach each other. */
    public Builder backend(String value) {
      backend = value;
      return this;
    }

    /** The configuration. */
    public BufferConfig build() {
      return new BufferConfig(
          hidden,
          topK,
          experts,
          placement,
          maxTokens,
          rowDType,
          maxReceiveRows,
          expertAlignment,
          lowLatencyMaxTokens,
          masking,
          timeout,
          parallelism,
          engine,
          ranksPerNode,
          wire,
          backend);
    }
  }
}
