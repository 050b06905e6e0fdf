package org.ep4j.config;

import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import javax.net.ssl.SSLContext;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * Settings of a buffer's own wire between nodes, so that buffers of one process can differ. What is
 * left open comes from the environment ({@code EP4J_WIRE_LANES}, {@code EP4J_IB_*}), or else is the
 * wire's default. Every rank passes the same values. Immutable.
 */
public final class WireOptions {
  /** Maximum number of lanes to a peer. */
  public static final int MAX_LANES = 1024;

  /** Maximum number of queue pairs to a peer on a port. */
  public static final int MAX_QUEUE_PAIRS = 64;

  /** Everything is left open. */
  public static final WireOptions DEFAULT = builder().build();

  private static final int OPEN = -1;

  private final int lanes;
  private final int queuePairs;
  private final int serviceLevel;
  private final int trafficClass;
  private final @Nullable Boolean gpuDirect;
  private final @Nullable SSLContext sslContext;

  private WireOptions(Builder b) {
    lanes = b.lanes;
    queuePairs = b.queuePairs;
    serviceLevel = b.serviceLevel;
    trafficClass = b.trafficClass;
    gpuDirect = b.gpuDirect;
    sslContext = b.sslContext;
  }

  /** A builder that leaves everything open. */
  public static Builder builder() {
    return new Builder();
  }

  /** A builder that starts from these options. */
  public Builder toBuilder() {
    Builder b = new Builder();
    b.lanes = lanes;
    b.queuePairs = queuePairs;
    b.serviceLevel = serviceLevel;
    b.trafficClass = trafficClass;
    b.gpuDirect = gpuDirect;
    b.sslContext = sslContext;
    return b;
  }

  /**
   * Lanes to each peer, up to {@link #MAX_LANES}: independent ordered streams of work, which an
   * engine uses in turn. Left open: as many as queue pairs to the peer for the wire {@code verbs},
   * 8 for the wire {@code backend}, 4 for other wires; on GPUs for each thread of the proxy. An
   * open buffer returns the number.
   */
  public OptionalInt lanes() {
    return given(lanes);
  }

  /** {@link #lanes()}, or {@code otherwise} if left open; allocates nothing. */
  public int lanesOr(int otherwise) {
    return lanes == OPEN ? otherwise : lanes;
  }

  /** Wire {@code verbs}: queue pairs to each peer on each port, up to {@link #MAX_QUEUE_PAIRS}. */
  public OptionalInt queuePairs() {
    return given(queuePairs);
  }

  /** Wire {@code verbs}: service level, 0 to 15. */
  public OptionalInt serviceLevel() {
    return given(serviceLevel);
  }

  /** Wire {@code verbs}: traffic class of the packets, 0 to 255 (RoCE: DSCP * 4). */
  public OptionalInt trafficClass() {
    return given(trafficClass);
  }

  /** Wire {@code verbs}: whether ports read and write GPU memory. */
  public Optional<Boolean> gpuDirect() {
    return Optional.ofNullable(gpuDirect);
  }

  /**
   * Wire {@code tcp}: certificates and trust of the caller, with which it encrypts (TLS 1.3). Left
   * open: the environment says whether the wire encrypts ({@code EP4J_WIRE_ENCRYPTED}), and each
   * rank makes a key of its own. In both cases ranks prove that they belong to the job, and the
   * proof covers the channel. With a context, both ends also present certificates and check those
   * of the peer. Either all ranks pass one or none does; the contexts of ranks may differ. Wires
   * that do not leave the host ignore it; others than {@code tcp} refuse to open.
   */
  public Optional<SSLContext> sslContext() {
    return Optional.ofNullable(sslContext);
  }

  private static OptionalInt given(int value) {
    return value == OPEN ? OptionalInt.empty() : OptionalInt.of(value);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof WireOptions o
        && lanes == o.lanes
        && queuePairs == o.queuePairs
        && serviceLevel == o.serviceLevel
        && trafficClass == o.trafficClass
        && Objects.equals(gpuDirect, o.gpuDirect)
        && Objects.equals(sslContext, o.sslContext);
  }

  @Override
  public int hashCode() {
    return Objects.hash(lanes, queuePairs, serviceLevel, trafficClass, gpuDirect, sslContext);
  }

  /** Ranks compare these texts, which say of a context only whether there is one. */
  @Override
  public String toString() {
    return "WireOptions[lanes="
        + text(lanes)
        + ", queuePairs="
        + text(queuePairs)
        + ", serviceLevel="
        + text(serviceLevel)
        + ", trafficClass="
        + text(trafficClass)
        + ", gpuDirect="
        + (gpuDirect == null ? "open" : gpuDirect)
        + ", sslContext="
        + (sslContext == null ? "open" : "given")
        + "]";
  }

  private static String text(int value) {
    return value == OPEN ? "open" : Integer.toString(value);
  }

  /** Collects options; each call refuses a value out of range. */
  public static final class Builder {
    private int lanes = OPEN;
    private int queuePairs = OPEN;
    private int serviceLevel = OPEN;
    private int trafficClass = OPEN;
    private @Nullable Boolean gpuDirect;
    private @Nullable SSLContext sslContext;

    private Builder() {}

    /**
     * Lanes to each peer.
     *
     * @throws InvalidArgumentException if the number is not from 1 to {@link #MAX_LANES}
     */
    public Builder lanes(int value) {
      lanes = range("lanes", value, 1, MAX_LANES);
      return this;
    }

    /**
     * Queue pairs to each peer on each port.
     *
     * @throws InvalidArgumentException if the number is not from 1 to {@link #MAX_QUEUE_PAIRS}
     */
    public Builder queuePairs(int value) {
      queuePairs = range("queuePairs", value, 1, MAX_QUEUE_PAIRS);
      return this;
    }

    /**
     * Service level.
     *
     * @throws InvalidArgumentException if the number is not from 0 to 15
     */
    public Builder serviceLevel(int value) {
      serviceLevel = range("serviceLevel", value, 0, 15);
      return this;
    }

    /**
     * Traffic class.
     *
     * @throws InvalidArgumentException if the number is not from 0 to 255
     */
    public Builder trafficClass(int value) {
      trafficClass = range("trafficClass", value, 0, 255);
      return this;
    }

    /** Whether ports read and write GPU memory. */
    public Builder gpuDirect(boolean value) {
      gpuDirect = value;
      return this;
    }

    /** Certificates and trust of the caller; the wire {@code tcp} then encrypts. */
    public Builder sslContext(SSLContext value) {
      sslContext = value;
      return this;
    }

    /** The options. */
    public WireOptions build() {
      return new WireOptions(this);
    }

    private static int range(String field, int value, int least, int max) {
      if (value < least || value > max) {
        throw new InvalidArgumentException(
            ErrorCode.WIRE_SETTING,
            field,
            String.valueOf(value),
            "from " + least + " to " + max,
            "leave the field out for the default");
      }
      return value;
    }
  }
}
