package org.ep4j;

import org.ep4j.config.Layout;
import org.ep4j.tensor.Tensor;

/**
 * Routing state of a low-latency dispatch, needed by its combine. Valid until the second next
 * low-latency dispatch; later use throws {@link IllegalStateException}.
 */
public interface LowLatencyHandle {
  /**
   * INT32 [L, R*M]: source token of each row; {@link Layout#RANK_MAJOR}: [R, M]. Only rows with
   * tokens are valid.
   */
  Tensor srcInfo();

  /**
   * INT64 [L, R]: low 32 bits = number of rows from that source rank, high 32 bits = index of the
   * first of them within the R*M rows of the expert. {@link Layout#RANK_MAJOR}: [R]; the first row
   * of rank r is r*M, counted over all R*M rows.
   */
  Tensor layoutRange();
}
