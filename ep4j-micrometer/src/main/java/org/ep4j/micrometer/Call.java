package org.ep4j.micrometer;

import io.micrometer.core.instrument.Tags;

/** Calls of a buffer that a timer records. */
enum Call {
  DISPATCH(BufferMeter.DISPATCH_DURATION, "high_throughput"),
  COMBINE(BufferMeter.COMBINE_DURATION, "high_throughput"),
  LOW_LATENCY_DISPATCH(BufferMeter.DISPATCH_DURATION, "low_latency"),
  LOW_LATENCY_COMBINE(BufferMeter.COMBINE_DURATION, "low_latency"),
  BARRIER(BufferMeter.BARRIER_DURATION, ""),
  RESET(BufferMeter.RECOVERY_DURATION, "reset"),
  READMIT(BufferMeter.RECOVERY_DURATION, "readmit");

  final BufferMeter timer;

  /** Value of the tag of the timer; empty if it has none. */
  private final String value;

  Call(BufferMeter timer, String value) {
    this.timer = timer;
    this.value = value;
  }

  Tags tags() {
    return value.isEmpty() ? Tags.empty() : Tags.of(timer.tags().getFirst(), value);
  }
}
