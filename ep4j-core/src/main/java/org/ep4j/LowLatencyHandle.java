package org.ep4j;

/**
 * Routing state of a low-latency dispatch, needed by its combine. Valid until the second next
 * low-latency dispatch; used later it is an {@link IllegalStateException}.
 */
public interface LowLatencyHandle {
  /**
   * INT32 [L, R*M]: source token of each row; {@link RowLayout#RANK_MAJOR}: [R, M]. Only rows with
   * tokens mean anything.
   */
  Tensor srcInfo();

  /**
   * INT64 [L, R]: low 32 bits = rows from that source rank, high 32 bits = first of them, counted
   * inside the expert's R*M rows; {@link RowLayout#RANK_MAJOR}: [R], the first counted over all R*M
   * rows, so rank r's is r*M.
   */
  Tensor layoutRange();
}
