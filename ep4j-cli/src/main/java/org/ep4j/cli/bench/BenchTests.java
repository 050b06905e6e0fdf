package org.ep4j.cli.bench;

/**
 * Tests in place of a measurement.
 *
 * @param pressureSeconds length of a {@link PressureTest}; 0: none
 * @param shrink whether a {@link ShrinkTest} runs
 */
record BenchTests(int pressureSeconds, boolean shrink) {
  /** Whether nothing is measured. */
  boolean any() {
    return pressureSeconds > 0 || shrink;
  }
}
