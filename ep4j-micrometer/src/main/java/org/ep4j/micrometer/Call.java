package org.ep4j.micrometer;

import io.micrometer.core.instrument.Tags;

/** Calls of a buffer that a timer records. */
enum Call {
  DISPATCH(BufferMeter.DISPATCH_DURATION, Tags.of("mode", "high_throughput")),
  COMBINE(BufferMeter.COMBINE_DURATION, Tags.of("mode", "high_throughput")),
  LOW_LATENCY_DISPATCH(BufferMeter.DISPATCH_DURATION, Tags.of("mode", "low_latency")),
  LOW_LATENCY_COMBINE(BufferMeter.COMBINE_DURATION, Tags.of("mode", "low_latency")),
  BARRIER(BufferMeter.BARRIER_DURATION, Tags.empty()),
  RESET(BufferMeter.RECOVERY_DURATION, Tags.of("call", "reset")),
  READMIT(BufferMeter.RECOVERY_DURATION, Tags.of("call", "readmit"));

  final BufferMeter timer;
  final Tags tags;

  Call(BufferMeter timer, Tags tags) {
    this.timer = timer;
    this.tags = tags;
  }
}
