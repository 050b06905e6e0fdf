package org.ep4j.cuda.engine.lowlatency;

/**
 * The part of an operation that a launch runs; numbered as in {@code
 * kernels/lowlatency/low_latency.cuh}.
 */
enum LowLatencyPhase {
  /** Sends; a hook receives later. */
  SEND(1),
  /** Receives. */
  RECEIVE(2),
  /** Sends and receives. */
  BOTH(3);

  final int bits;

  LowLatencyPhase(int bits) {
    this.bits = bits;
  }
}
