package org.ep4j.tensor;

/**
 * How low-latency dispatch scales FP8 blocks of 128 values; amax is the largest magnitude of the
 * block, at least 1e-4.
 */
public enum ScaleKind {
  /** FP32 scale amax / 448. */
  FLOAT32,
  /** FP32 scale rounded up to a power of two ({@code round_scale} of DeepEP V1). */
  FLOAT32_POW2,
  /**
   * The power of two stored as its biased exponent byte, four per INT32 word: {@code hidden} must
   * be a multiple of 512.
   */
  UE8M0
}
