package org.ep4j.cuda.engine.launch;

/** Fields of {@code LowLatencyPuts} in {@code low_latency_puts.cuh}, 8 bytes each. */
public enum LowLatencyPutsField {
  WORLD,
  STAGING,
  STAGING_SOURCE,
  HALF_BYTES,
  ROWS_OFFSET,
  TARGET,
  COUNTERS,
  BASE,
  FIRST_COUNTER
}
