package org.ep4j.cuda.engine;

/** What one launch does of an operation; numbered as in {@code kernels/low_latency.cuh}. */
enum LowLatencyPhase {
  /** Only sends: a hook receives. */
  SEND(1),
  /** Only receives. */
  RECEIVE(2),
  /** All of it. */
  BOTH(3);

  final int bits;

  LowLatencyPhase(int bits) {
    this.bits = bits;
  }
}
