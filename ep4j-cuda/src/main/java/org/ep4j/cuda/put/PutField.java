package org.ep4j.cuda.put;

/**
 * Fields of {@code DevicePut} in {@code kernels/transport/device_put.cuh}, 8 bytes each; the rings
 * are last.
 */
enum PutField {
  RANK,
  RANKS,
  LANES,
  SIGNALS,
  OWN,
  PEERS,
  SIGNAL_WORDS,
  LIBRARY,
  WINDOW,
  OUTGOING,
  INCOMING,
  COUNTERS,
  FLUSHES,
  LANES_PER_RING,
  RINGS
}
