package org.ep4j.engine.host.context;

import org.ep4j.tensor.DType;

/** Inputs and outputs of a combine; filled for each combine. Addresses are 0 for missing parts. */
public final class SumTerms {
  /** First row and first weight of each rank that shares memory. */
  public final long[] rows;

  public final long[] weights;

  public DType dtype = DType.BF16;
  public long rowBytes;

  /** Elements of a row. */
  public int hidden;

  public boolean partialRounding;

  /** Whether rows are multiplied by the weights of their routes; only EXPERT_MAJOR. */
  public boolean applyWeights;

  /** Whether the rows of a token are added one by one in order of experts; only EXPERT_MAJOR. */
  public boolean byExperts;

  public long bias0;
  public long bias1;
  public long sums;

  /** Sums of weights; 0 if there are none. */
  public long weightSums;

  /** Whether native code may write the sums. */
  public boolean streamable;

  public SumTerms(int ranks) {
    rows = new long[ranks];
    weights = new long[ranks];
  }
}
