package org.ep4j.group;

import java.time.Duration;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.rendezvous.Rendezvous;

/**
 * How a rank finds its group. Immutable.
 *
 * @param rank this rank
 * @param size number of ranks
 * @param host name or address of the host of the rendezvous
 * @param port TCP port of the rendezvous; 0 only to open a {@link Rendezvous} on any free port
 * @param secret known to all ranks of the job only; may be empty only in a group of size 1. The
 *     secret is never sent: both sides prove that they know it
 * @param job name of the job, to distinguish two jobs with one secret; empty for none
 * @param hostsRendezvous whether the process of this rank hosts the rendezvous: exactly one rank
 *     does, usually rank 0, unless a launcher does
 * @param joinTimeout maximum wait until all ranks have joined; default 60 s, enough to start JVMs
 *     on loaded hosts
 * @param heartbeatInterval interval of heartbeats between ranks and rendezvous; default 250 ms
 * @param livenessTimeout silence after which a rank is declared dead; default 2 s. A pause of the
 *     whole JVM counts as silence, so the timeout must exceed every pause that a rank should
 *     survive. The same on all ranks
 */
public record GroupConfig(
    int rank,
    int size,
    String host,
    int port,
    String secret,
    String job,
    boolean hostsRendezvous,
    Duration joinTimeout,
    Duration heartbeatInterval,
    Duration livenessTimeout) {
  /** More counts as a year: in nanoseconds it overflows sooner or later. */
  private static final Duration LONGEST = Duration.ofDays(365);

  /** Default of {@code joinTimeout}. */
  public static final Duration JOIN_TIMEOUT = Duration.ofSeconds(60);

  /** Default of {@code heartbeatInterval}. */
  public static final Duration HEARTBEAT_INTERVAL = Duration.ofMillis(250);

  /** Default of {@code livenessTimeout}. */
  public static final Duration LIVENESS_TIMEOUT = Duration.ofSeconds(2);

  /** Maximum number of ranks of a group. */
  public static final int MAX_RANKS = 65_536;

  /** Maximum number of characters of a job name. */
  public static final int MAX_JOB_CHARACTERS = 200;

  /**
   * Checks the values.
   *
   * @throws InvalidArgumentException if a value is out of range
   */
  public GroupConfig {
    require(
        size >= 1 && size <= MAX_RANKS,
        ErrorCode.GROUP_SIZE,
        "size",
        size,
        "from 1 to " + MAX_RANKS,
        "pass the number of ranks");
    require(
        rank >= 0 && rank < size,
        ErrorCode.GROUP_SIZE,
        "rank",
        rank,
        "from 0 to size - 1 (" + (size - 1) + ")",
        "count ranks from 0");
    require(
        !host.isBlank(),
        ErrorCode.RENDEZVOUS_ADDRESS,
        "host",
        "''",
        "the host of the rendezvous",
        "pass for example 127.0.0.1");
    require(
        port >= 0 && port <= 65_535,
        ErrorCode.RENDEZVOUS_ADDRESS,
        "port",
        port,
        "from 1 to 65535",
        "pass the port of the rendezvous");
    require(
        size == 1 || !secret.isEmpty(),
        ErrorCode.SECRET_MISSING,
        "secret",
        "''",
        "set for more than one rank",
        "give all ranks the same long random text, for example in EP4J_SECRET");
    require(
        job.length() <= MAX_JOB_CHARACTERS,
        ErrorCode.JOB_NAME,
        "job",
        job.length() + " characters",
        "at most " + MAX_JOB_CHARACTERS + " characters",
        "use a shorter name");
    require(
        joinTimeout.isPositive(),
        ErrorCode.GROUP_TIMING,
        "joinTimeout",
        joinTimeout,
        "positive",
        "pass the maximum wait");
    require(
        heartbeatInterval.toMillis() >= 1,
        ErrorCode.GROUP_TIMING,
        "heartbeatInterval",
        heartbeatInterval,
        "at least 1 ms",
        "use the default of 250 ms");
    require(
        livenessTimeout.compareTo(heartbeatInterval.multipliedBy(2)) >= 0,
        ErrorCode.GROUP_TIMING,
        "livenessTimeout",
        livenessTimeout,
        "at least two heartbeat intervals (" + heartbeatInterval + " each)",
        "raise it or lower heartbeatInterval");
    joinTimeout = limited(joinTimeout);
    livenessTimeout = limited(livenessTimeout);
  }

  private static Duration limited(Duration timeout) {
    return timeout.compareTo(LONGEST) < 0 ? timeout : LONGEST;
  }

  private static void require(
      boolean ok, ErrorCode code, String field, Object value, String limit, String remedy) {
    if (!ok) {
      throw new InvalidArgumentException(code, field, value.toString(), limit, remedy);
    }
  }

  /**
   * A builder with the defaults: rank 0 of 1, this host, port 29400, rank 0 hosts the rendezvous.
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * A builder with these values; a later change of the rank does not change {@code
   * hostsRendezvous}.
   */
  public Builder toBuilder() {
    Builder builder = new Builder();
    builder.rank = rank;
    builder.size = size;
    builder.host = host;
    builder.port = port;
    builder.secret = secret;
    builder.job = job;
    builder.hosting = hostsRendezvous ? Hosting.YES : Hosting.NO;
    builder.joinTimeout = joinTimeout;
    builder.heartbeatInterval = heartbeatInterval;
    builder.livenessTimeout = livenessTimeout;
    return builder;
  }

  /** All values except the secret. */
  @Override
  public String toString() {
    return "rank %d of %d, rendezvous %s:%d%s, job '%s', secret %s"
        .formatted(
            rank,
            size,
            host,
            port,
            hostsRendezvous ? " (hosted here)" : "",
            job,
            secret.isEmpty() ? "none" : "given");
  }

  private enum Hosting {
    IF_RANK_0,
    YES,
    NO
  }

  /** Collects the values of a {@link GroupConfig}. */
  public static final class Builder {
    private int rank;
    private int size = 1;
    private String host = "127.0.0.1";
    private int port = 29_400;
    private String secret = "";
    private String job = "";
    private Hosting hosting = Hosting.IF_RANK_0;
    private Duration joinTimeout = JOIN_TIMEOUT;
    private Duration heartbeatInterval = HEARTBEAT_INTERVAL;
    private Duration livenessTimeout = LIVENESS_TIMEOUT;

    private Builder() {}

    /** This rank. */
    public Builder rank(int rank) {
      this.rank = rank;
      return this;
    }

    /** Number of ranks. */
    public Builder size(int size) {
      this.size = size;
      return this;
    }

    /** Host and port of the rendezvous. */
    public Builder rendezvous(String host, int port) {
      this.host = host;
      this.port = port;
      return this;
    }

    /** The secret that all ranks of the job share. */
    public Builder secret(String secret) {
      this.secret = secret;
      return this;
    }

    /** Name of the job. */
    public Builder job(String job) {
      this.job = job;
      return this;
    }

    /** Whether this rank's process hosts the rendezvous; default: rank 0 does. */
    public Builder hostsRendezvous(boolean hostsRendezvous) {
      this.hosting = hostsRendezvous ? Hosting.YES : Hosting.NO;
      return this;
    }

    /** Maximum wait until all ranks have joined. */
    public Builder joinTimeout(Duration joinTimeout) {
      this.joinTimeout = joinTimeout;
      return this;
    }

    /** Interval of heartbeats. */
    public Builder heartbeatInterval(Duration heartbeatInterval) {
      this.heartbeatInterval = heartbeatInterval;
      return this;
    }

    /** Silence after which a rank is declared dead. */
    public Builder livenessTimeout(Duration livenessTimeout) {
      this.livenessTimeout = livenessTimeout;
      return this;
    }

    /**
     * The configuration.
     *
     * @throws InvalidArgumentException if a value is out of range; names the value and the remedy
     */
    public GroupConfig build() {
      boolean hosts = hosting == Hosting.IF_RANK_0 ? rank == 0 : hosting == Hosting.YES;
      return new GroupConfig(
          rank,
          size,
          host,
          port,
          secret,
          job,
          hosts,
          joinTimeout,
          heartbeatInterval,
          livenessTimeout);
    }
  }
}
