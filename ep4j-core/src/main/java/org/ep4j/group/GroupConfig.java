package org.ep4j.group;

import java.time.Duration;

/**
 * How a rank finds its group. Immutable; a bad value is refused on construction.
 *
 * @param rank this rank
 * @param size number of ranks
 * @param host name or address of the host of the rendezvous
 * @param port its TCP port; 0 only to open a {@link Rendezvous} on any free port
 * @param secret what all ranks of the job know and nobody else; may be empty only in a group of
 *     size 1. It never travels: both sides prove that they know it
 * @param job name of the job, to tell two jobs with one secret apart; empty if there is none
 * @param hostsRendezvous whether this rank hosts the rendezvous itself: the process of exactly one
 *     rank does, usually 0, unless a launcher does
 * @param joinTimeout how long to wait until all ranks have joined; 60 s by default, enough for JVMs
 *     on loaded hosts to start
 * @param heartbeatInterval how often ranks and rendezvous show that they live; 250 ms by default
 * @param livenessTimeout after how much silence a rank is declared dead; 2 s by default. A pause of
 *     the whole JVM counts as silence, so it must be longer than any pause to be survived. The same
 *     on all ranks
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
  /** Default of {@code joinTimeout}. */
  public static final Duration JOIN_TIMEOUT = Duration.ofSeconds(60);

  /** Default of {@code heartbeatInterval}. */
  public static final Duration HEARTBEAT_INTERVAL = Duration.ofMillis(250);

  /** Default of {@code livenessTimeout}. */
  public static final Duration LIVENESS_TIMEOUT = Duration.ofSeconds(2);

  /** Most ranks of a group. */
  public static final int MAX_RANKS = 65_536;

  /** Most characters of a job name. */
  public static final int MAX_JOB_CHARACTERS = 200;

  /** Checks the values. */
  public GroupConfig {
    require(size >= 1 && size <= MAX_RANKS, "size is %s; it must be from 1 to " + MAX_RANKS, size);
    require(
        rank >= 0 && rank < size, "rank is %s; it must be from 0 to size - 1 = %s", rank, size - 1);
    require(!host.isBlank(), "host is empty; name the host of the rendezvous, e.g. 127.0.0.1");
    require(port >= 0 && port <= 65_535, "port is %s; it must be from 1 to 65535", port);
    require(
        size == 1 || !secret.isEmpty(),
        "secret is empty; give all ranks the same long random text, e.g. in EP4J_SECRET");
    require(
        job.length() <= MAX_JOB_CHARACTERS,
        "job has %s characters; at most " + MAX_JOB_CHARACTERS + " are allowed",
        job.length());
    require(joinTimeout.isPositive(), "joinTimeout is %s; it must be positive", joinTimeout);
    require(
        heartbeatInterval.toMillis() >= 1,
        "heartbeatInterval is %s; it must be at least 1 ms",
        heartbeatInterval);
    require(
        livenessTimeout.compareTo(heartbeatInterval.multipliedBy(2)) >= 0,
        "livenessTimeout is %s; it must be at least two heartbeat intervals (%s each)",
        livenessTimeout,
        heartbeatInterval);
  }

  private static void require(boolean ok, String message, Object... values) {
    if (!ok) {
      throw new IllegalArgumentException(message.formatted(values));
    }
  }

  /** A builder with the defaults: rank 0 of 1, on this host, port 29400, hosting if rank 0. */
  public static Builder builder() {
    return new Builder();
  }

  /** A builder with these values; whether the rendezvous is hosted stays, whatever the rank. */
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

  /** All but the secret. */
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

    /** The secret all ranks of the job share. */
    public Builder secret(String secret) {
      this.secret = secret;
      return this;
    }

    /** Name of the job. */
    public Builder job(String job) {
      this.job = job;
      return this;
    }

    /** Whether this rank's process hosts the rendezvous; by default rank 0 does. */
    public Builder hostsRendezvous(boolean hostsRendezvous) {
      this.hosting = hostsRendezvous ? Hosting.YES : Hosting.NO;
      return this;
    }

    /** How long to wait until all ranks have joined. */
    public Builder joinTimeout(Duration joinTimeout) {
      this.joinTimeout = joinTimeout;
      return this;
    }

    /** How often ranks and rendezvous show that they live. */
    public Builder heartbeatInterval(Duration heartbeatInterval) {
      this.heartbeatInterval = heartbeatInterval;
      return this;
    }

    /** After how much silence a rank is declared dead. */
    public Builder livenessTimeout(Duration livenessTimeout) {
      this.livenessTimeout = livenessTimeout;
      return this;
    }

    /**
     * The configuration.
     *
     * @throws IllegalArgumentException if a value is bad; names it and the remedy
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
