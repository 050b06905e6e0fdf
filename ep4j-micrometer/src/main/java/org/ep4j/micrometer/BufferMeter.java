package org.ep4j.micrometer;

import static org.ep4j.micrometer.BufferMeter.Kind.COUNTER;
import static org.ep4j.micrometer.BufferMeter.Kind.GAUGE;
import static org.ep4j.micrometer.BufferMeter.Kind.TIMER;
import static org.ep4j.micrometer.BufferMeter.Origin.CALLS;
import static org.ep4j.micrometer.BufferMeter.Origin.OBSERVATION;
import static org.ep4j.micrometer.BufferMeter.Origin.STATISTICS;

import java.util.List;

/** All meters. {@code docs/observability/README.md} shows the same table; a test compares them. */
enum BufferMeter {
  DISPATCH_DURATION(CALLS, TIMER, "ep4j.dispatch.duration", "seconds", "calls of dispatch", "mode"),
  COMBINE_DURATION(CALLS, TIMER, "ep4j.combine.duration", "seconds", "calls of combine", "mode"),
  BARRIER_DURATION(CALLS, TIMER, "ep4j.barrier.duration", "seconds", "calls of barrier"),
  RECOVERY_DURATION(
      CALLS, TIMER, "ep4j.recovery.duration", "seconds", "calls of reset and readmit", "call"),
  FAILURES(
      CALLS,
      COUNTER,
      "ep4j.failures",
      "failures",
      "calls that ended in another Ep4jException than a timeout"),

  OPERATIONS(
      STATISTICS,
      COUNTER,
      "ep4j.operations",
      "operations",
      "completed operations",
      "operation",
      "mode"),
  SENT_ROWS(
      STATISTICS, COUNTER, "ep4j.sent.rows", "rows", "rows that this rank sent, its own included"),
  RECEIVED_ROWS(
      STATISTICS,
      COUNTER,
      "ep4j.received.rows",
      "rows",
      "rows that this rank received, its own included"),
  SENT_PAYLOAD(STATISTICS, COUNTER, "ep4j.sent.payload", "bytes", "rows and scales sent"),
  WIRE_SENT(
      STATISTICS,
      COUNTER,
      "ep4j.wire.sent",
      "bytes",
      "puts to other nodes through a port, since the wire was opened; verbs only",
      "port"),
  MEMORY(
      STATISTICS,
      GAUGE,
      "ep4j.memory",
      "bytes",
      "reserved memory: symmetric, which peers reach, and private",
      "scope"),
  MASKED_RANKS(STATISTICS, GAUGE, "ep4j.masked.ranks", "ranks", "ranks that this rank masks"),
  ABANDONED_THREADS(
      STATISTICS,
      GAUGE,
      "ep4j.abandoned.threads",
      "threads",
      "threads of the process inside a library that waits for a lost rank; normally 0"),
  STATISTICS_AGE(
      STATISTICS, GAUGE, "ep4j.statistics.age", "seconds", "since these values were sampled"),

  TIMEOUTS(
      OBSERVATION,
      COUNTER,
      "ep4j.timeouts",
      "timeouts",
      "operations that ended in PeerTimeoutException, asynchronous ones too"),
  TIMEOUT_PEER(
      OBSERVATION,
      GAUGE,
      "ep4j.timeout.peer",
      "",
      "the rank that the last timeout named; NaN before"),
  PERIOD(
      OBSERVATION,
      GAUGE,
      "ep4j.operation.period",
      "seconds",
      "from an operation to the next; lower median over the windows of the last 200"),
  WAIT(
      OBSERVATION,
      GAUGE,
      "ep4j.operation.wait",
      "seconds",
      "wait for the rank peer in an operation; lower median over the same windows",
      "peer"),
  LONGEST_WAIT(
      OBSERVATION, GAUGE, "ep4j.operation.wait.longest", "seconds", "the longest of these waits"),
  LONGEST_WAIT_PEER(
      OBSERVATION,
      GAUGE,
      "ep4j.operation.wait.longest.peer",
      "",
      "the rank of the longest wait; NaN without a wait"),
  EXPERT_TOKENS(
      OBSERVATION,
      COUNTER,
      "ep4j.expert.tokens",
      "tokens",
      "tokens that dispatches brought to an expert of this rank; expert=\"rest\": to all others",
      "expert"),
  EXPERT_BALANCEDNESS(
      OBSERVATION,
      GAUGE,
      "ep4j.expert.balancedness",
      "",
      "mean tokens of the experts of this rank, divided by those of the busiest");

  /** How a meter changes. */
  enum Kind {
    TIMER,
    COUNTER,
    GAUGE
  }

  /** Where its values come from. */
  enum Origin {
    /** Calls through {@link ExpertBufferMetrics#buffer()}. */
    CALLS("calls"),
    /** {@link org.ep4j.ExpertBuffer#statistics()}. */
    STATISTICS("statistics()"),
    /** {@link org.ep4j.ExpertBuffer#observe()}. */
    OBSERVATION("observe()");

    final String call;

    Origin(String call) {
      this.call = call;
    }
  }

  final Origin origin;
  final Kind kind;
  final String id;

  /** Base unit; empty for none. */
  final String unit;

  final String meaning;

  private final String tags;

  BufferMeter(Origin origin, Kind kind, String id, String unit, String meaning, String... tags) {
    this.origin = origin;
    this.kind = kind;
    this.id = id;
    this.unit = unit;
    this.meaning = meaning;
    this.tags = String.join(",", tags);
  }

  /** Keys of its tags beside {@code rank} and those of the user. */
  List<String> tags() {
    return tags.isEmpty() ? List.of() : List.of(tags.split(",", -1));
  }
}
