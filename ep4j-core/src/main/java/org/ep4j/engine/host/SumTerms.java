package org.ep4j.engine.host;

import org.ep4j.DType;

/** Inputs and outputs of a combine; filled for each combine. Addresses are 0 for missing parts. */
final class SumTerms {
  /** First row and first weight of each rank that shares memory. */
  final long[] rows;

  final long[] weights;

  DType dtype = DType.BF16;
  long rowBytes;
  boolean partialRounding;
  long bias0;
  long bias1;
  long sums;

  /** Sums of weights; 0 if there are none. */
  long weightSums;

  /** Whether native code may write the sums. */
  boolean streamable;

  SumTerms(int ranks) {
    rows = new long[ranks];
    weights = new long[ranks];
  }
}
