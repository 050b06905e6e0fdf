package org.ep4j;

import org.ep4j.engine.Engines;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * Dispatch and combine of a Mixture-of-Experts layer among the ranks of a group.
 *
 * <p>Operations are collective: every rank calls the same operations in the same order. T is the
 * number of tokens of this rank (ranks may differ, 0 is allowed), H hidden, K top-k, R ranks, E
 * experts, L local experts.
 *
 * <p><b>Threads:</b> one thread at a time; a second thread inside is an {@link
 * IllegalStateException}. Hooks run on the calling thread.
 *
 * <p><b>Errors:</b> bad input is an {@link InvalidArgumentException} before anything is sent; a
 * silent or dead peer a {@link PeerTimeoutException}, after which only {@link #reset()} and {@link
 * #close()} are accepted; a misuse (closed buffer, closed or outdated handle, third low-latency
 * operation in flight) an {@link IllegalStateException}.
 *
 * <p><b>Devices:</b> an engine of devices takes tensors of its device without a copy, and host
 * tensors through a copy. Without a stream in the options a call behaves as on the host. With one
 * it returns once the work is enqueued; errors of the operation come out of its event or of the
 * next call.
 *
 * <p><b>Memory:</b> results are views into the buffer; each result type says how long they live.
 * Once warm, no call allocates (an asynchronous one only its event).
 */
public interface ExpertBuffer extends AutoCloseable {
  /**
   * Opens a buffer on every rank of {@code group}; collective.
   *
   * @throws ConfigurationMismatchException if ranks disagree, naming rank and field
   * @throws EngineUnavailableException if the wanted engine cannot run here
   */
  static ExpertBuffer open(Group group, BufferConfig config) {
    return Engines.open(group, config);
  }

  /**
   * What a buffer of this configuration would reserve on each of {@code ranks} ranks; opens
   * nothing.
   *
   * @throws EngineUnavailableException if the wanted engine cannot run here
   */
  static BufferSizes sizes(BufferConfig config, int ranks) {
    return Engines.sizes(config, ranks);
  }

  /**
   * Opens a restarted rank's buffer among ranks that have kept theirs; collective with {@link
   * #readmit} on these. {@link Group#rejoin} has made the group, and the others have called {@link
   * Group#readmit}. If the group has several buffers, all ranks take them in the same order.
   *
   * @throws ConfigurationMismatchException if this rank's configuration differs, naming the field,
   *     or it runs on another host than the ranks that it shared memory with
   * @throws IllegalStateException if the ranks are threads of one process
   */
  static ExpertBuffer rejoin(Group group, BufferConfig config) {
    return Engines.rejoin(group, config);
  }

  /** This rank. */
  int rank();

  /** Number of ranks R. */
  int worldSize();

  /** The configuration, with every automatic value settled. */
  BufferConfig config();

  /** Name of the engine that does the work: {@code host} or {@code cuda}. */
  String engine();

  /** Counts tokens per rank, node and expert; local, sends nothing. */
  DispatchLayout dispatchLayout(Routing routing);

  /** Sends each token to the ranks that own its experts. */
  Dispatch dispatch(Tokens tokens, Routing routing, DispatchOptions options);

  /** The same with {@link DispatchOptions#DEFAULT}. */
  default Dispatch dispatch(Tensor x, Routing routing) {
    return dispatch(Tokens.of(x), routing, DispatchOptions.DEFAULT);
  }

  /** The same for payloads with scales. */
  default Dispatch dispatch(Tokens tokens, Routing routing) {
    return dispatch(tokens, routing, DispatchOptions.DEFAULT);
  }

  /**
   * Cached dispatch: new payload along the ways of {@code handle}; no layout, no counts. Index and
   * weight tensors of the result are those of the first dispatch's routing and are not sent again:
   * {@link Dispatch#topkIdx()} and {@link Dispatch#topkWeights()} are null.
   */
  Dispatch dispatch(Tokens tokens, DispatchHandle handle, Schedule schedule);

  /**
   * Cached dispatch on the buffer's own stream.
   *
   * @param previousEvent event to wait for first, or null
   * @param async return before completion
   */
  default Dispatch dispatch(
      Tokens tokens, DispatchHandle handle, @Nullable Event previousEvent, boolean async) {
    return dispatch(tokens, handle, new Schedule(null, previousEvent, async));
  }

  /** Synchronous cached dispatch. */
  default Dispatch dispatch(Tokens tokens, DispatchHandle handle) {
    return dispatch(tokens, handle, Schedule.DEFAULT);
  }

  /**
   * Brings rows back and sums them per token.
   *
   * @param y BF16, FP16 or FP32 [>= N, H] in the row order of the handle's dispatch; may be {@link
   *     Dispatch#combineInput} (no copy) or any other memory, {@link Dispatch#x()} included. Ranks
   *     that are threads of one process read native memory where it is: keep it until the combine
   *     has ended, and after a {@link PeerTimeoutException} until {@link #reset()} has returned
   */
  Combine combine(Tensor y, DispatchHandle handle, CombineOptions options);

  /** The same with {@link CombineOptions#DEFAULT}. */
  default Combine combine(Tensor y, DispatchHandle handle) {
    return combine(y, handle, CombineOptions.DEFAULT);
  }

  /**
   * Sends BF16 rows [T, H], T at most {@link BufferConfig#lowLatencyMaxTokens()}, straight to their
   * experts, quantised on the way if asked; {@link RowLayout} says in which order they arrive.
   */
  LowLatencyDispatch lowLatencyDispatch(
      Tensor x, Routing routing, LowLatencyDispatchOptions options);

  /**
   * Weighted sum of the experts' rows or, after a dispatch with {@link RowLayout#RANK_MAJOR}, sum
   * of the ranks' partial sums.
   *
   * @param y BF16 [L, R*M, H] in the row order of the dispatch; RANK_MAJOR: [R, M, H], one row per
   *     token, weighed and summed over the local experts
   * @param routing ids as dispatched (an id may have become -1: the slot is skipped) and weights;
   *     RANK_MAJOR: only its shape is looked at, because the rows have been weighed
   */
  LowLatencyCombine lowLatencyCombine(
      Tensor y, Routing routing, LowLatencyHandle handle, LowLatencyCombineOptions options);

  /**
   * The region, with the shape of y, that the next {@link #lowLatencyCombine} with {@code zeroCopy}
   * sends from. Valid until that combine.
   */
  Tensor lowLatencyCombineBuffer(LowLatencyHandle handle);

  /**
   * Masks or admits a rank. Nothing is sent to a masked rank, nothing is waited for from it, and
   * its contributions are skipped.
   */
  void updateMask(int rank, boolean masked);

  /** Whether {@code rank} is masked here. */
  boolean isMasked(int rank);

  /** Writes 1 for each masked rank and 0 for the others into {@code mask}, INT32 [R]. */
  void queryMask(Tensor mask);

  /**
   * Admits all ranks again. Dead ranks are masked again at once when masking is configured.
   *
   * <p>A rank that was masked has missed low-latency operations; by this call it goes on with the
   * count of the others. So all ranks call it, while none is inside such an operation: for example
   * between two {@link #barrier()}s, and not between a dispatch and its combine: a rank that was
   * masked while its rows came has none to get back, and masks the rank that masked it in turn, or
   * without masking gets a {@link PeerTimeoutException}.
   */
  void cleanMask();

  /** SMs (CUDA) or threads (host) that an operation may use. */
  int parallelism();

  /** Changes {@link #parallelism()}: 0 = the engine's own choice; any positive number works. */
  void setParallelism(int sms);

  /**
   * Waits until all unmasked ranks have called it.
   *
   * @throws PeerTimeoutException if one does not
   */
  void barrier();

  /**
   * Collective among the live ranks: makes the buffer usable after a {@link PeerTimeoutException}.
   * Dead ranks are masked from then on; rows for their experts are not sent.
   *
   * <p>Host engine: where a rank of the node was lost, what is in the memory that the buffer has
   * handed out is gone (zeros, at the same addresses), tensors of earlier results included. The
   * lost rank may only have been stopped, and keeps the old memory to itself.
   *
   * <p>CUDA engine on several nodes: goes on without nodes that are lost as a whole, where the wire
   * ends what they send ({@code tcp}, {@code verbs}, {@code nccl}); not where one rank of several
   * of a node is lost, or a lane between live ranks has failed.
   *
   * @throws UnsupportedOperationException if the engine cannot go on without a lost rank; open
   *     another buffer among the live ranks
   */
  void reset();

  /**
   * Collective among the live ranks, after {@link Group#readmit}: does what {@link #reset} does,
   * and takes in the ranks that have come back, which call {@link #rejoin} meanwhile. They are
   * unmasked then and take part in all operations. The other ranks keep the buffer, its memory, and
   * what they have mapped of each other; results and handles of earlier operations are outdated, as
   * after a reset.
   *
   * <p>Until then the buffer leaves these ranks out, as it did since they were lost. If they are
   * lost again meanwhile, or not all ranks come, this ends in an exception that says so, within
   * twice the buffer's timeout for each step; the buffer goes on without them, or asks for {@link
   * #reset} where it had to connect nodes anew or to clear words that GPUs share.
   *
   * @throws IllegalStateException if no rank has come back into the group, or the backend between
   *     GPUs takes none in again
   * @throws ConfigurationMismatchException if one that comes back has another configuration
   * @throws org.ep4j.group.GroupException if ranks are missing; names them
   */
  void readmit();

  /** Counters and sizes. */
  BufferStatistics statistics();

  /**
   * Gives everything back; the peers' mappings stay valid until they close too. Waits for
   * operations that are queued (each has deadlines), also where the thread is interrupted.
   */
  @Override
  void close();
}
