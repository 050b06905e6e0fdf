package org.ep4j;

import java.util.Optional;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.execution.Event;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;

/**
 * What every high-throughput dispatch delivers; {@link FlatDispatch} and {@link GroupedDispatch}
 * add what their row order has. N is the number of received rows, S the number of scales per row, R
 * the number of ranks, L the number of local experts, K the top-k width.
 *
 * <p>A result is valid until the next high-throughput dispatch on the same buffer. From then on
 * every accessor except {@link #event()} and {@link #combineInput} throws {@link
 * IllegalStateException}. Tensors are views into the buffer's receive region: {@link Tensor#copyTo}
 * makes an owned copy. The buffer reuses result objects in turn, so a reference that is several
 * dispatches old can describe a newer one.
 *
 * <p>Accessors of an asynchronous dispatch wait for {@link #event()}.
 */
public interface Dispatch {
  /**
   * Number of received rows N: with {@link Sizing#EXACT} the true count (EXPERT_MAJOR: padding
   * included), with {@link Sizing#atMost} the caller's maximum.
   */
  long rows();

  /**
   * Rows that carry a token. With {@link Sizing#atMost} this is the true count, which can exceed
   * {@link #rows()}.
   */
  long receivedRows();

  /**
   * Received rows, dtype of the payload, [N, H].
   *
   * @throws Ep4jException if the system has no memory left for padding rows
   */
  Tensor x();

  /** Whether the payload had scales. */
  boolean hasScales();

  /**
   * Scales of the received rows in the dtype in which they were sent: [N, S], or [S, A] with {@link
   * ScaleLayout#COLUMN_MAJOR}.
   *
   * @throws IllegalStateException if the payload had no scales
   * @throws Ep4jException if the system has no memory left for padding rows
   */
  Tensor scales();

  /** Whether the payload had NVFP4 factors. */
  boolean hasGlobalScales();

  /**
   * NVFP4 factors FP32 [N].
   *
   * @throws IllegalStateException if the payload had none
   * @throws Ep4jException if the system has no memory left for padding rows
   */
  Tensor globalScales();

  /**
   * Whether routing weights arrived with the rows: false if the routing had none, and after a
   * cached dispatch.
   */
  boolean hasWeights();

  /** INT32 [L]: tokens per local expert, rounded up to the expert alignment. */
  Tensor alignedCounts();

  /** INT32 [L]: tokens per local expert, not rounded. */
  Tensor counts();

  /** INT32 [N]: token number at its source rank, -1 on unused and padding rows. */
  Tensor sourceTokens();

  /** INT32 [N]: source rank of each row, -1 on unused and padding rows. */
  Tensor sourceRanks();

  /**
   * A region [capacity, H] that peers read directly. If experts write row i of their result to row
   * i of this region, combine needs no copy. The rows in use have memory when the call returns;
   * rows behind them may have none, and an access from native code could end the process. With
   * {@link HighThroughputConfig#combineInPlace} the region is the memory of {@link #x()}.
   *
   * @param dtype element type of the result: BF16, FP16 or FP32
   * @throws Ep4jException if the system has no memory left for the rows in use
   */
  Tensor combineInput(DType dtype);

  /**
   * The number of missing rows; empty if all rows fit. Only dispatches with {@link Sizing#atMost}
   * can overflow. A row that does not fit is not written, and combine omits it from the sum of its
   * token.
   */
  Optional<ReceiveOverflowException> overflow();

  /** The handle for combine and for cached dispatches. */
  DispatchHandle handle();

  /** Completion of the dispatch. */
  Event event();
}
