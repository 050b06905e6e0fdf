package org.ep4j;

import java.util.OptionalInt;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.engine.Engines;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.observe.RankObservation;
import org.ep4j.observe.WorldObservation;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;

/**
 * Dispatch and combine of a Mixture-of-Experts layer among the ranks of a group.
 *
 * <p>Operations are collective: every rank calls the same operations in the same order. T is the
 * number of tokens of this rank (ranks may differ, 0 is allowed), H the hidden size, K top-k, R the
 * number of ranks, E experts, L local experts, N received rows, M the low-latency token maximum.
 * Tensors are row-major.
 *
 * <p><b>Weights:</b> high-throughput combine adds rows and does not apply routing weights unless
 * {@link CombineOptions#applyWeights} is set; otherwise the caller multiplies rows by their
 * weights. Low-latency combine applies the routing weights.
 *
 * <p><b>Threads:</b> one thread at a time may use a buffer. A call while another thread is inside
 * throws {@link IllegalStateException}. Hooks run on the calling thread.
 *
 * <p><b>Interrupts:</b> an interrupt of the thread ends its wait for peers within a second, in
 * {@link Ep4jException} with the code {@link ErrorCode#OPERATION_INTERRUPTED}. The interrupt flag
 * stays set. The buffer then needs {@link #reset()}, as after a timeout; the other ranks get the
 * reason at once. {@link #open}, {@link #reset()} and {@link #readmit()} end with {@link
 * ErrorCode#GROUP_INTERRUPTED}, and {@link Event#await()} with {@link
 * ErrorCode#EVENT_WAIT_INTERRUPTED}: its operation continues.
 *
 * <p><b>Errors:</b> invalid input throws {@link InvalidArgumentException} before anything is sent.
 * The other ranks wait meanwhile: the rank may correct its arguments and call again. If it leaves
 * the group or ends instead, or closes its buffer of the host engine, they learn that at once. A
 * silent or dead peer causes {@link PeerTimeoutException}; after that only {@link #reset()} and
 * {@link #close()} are accepted. Misuse (closed buffer, closed or outdated handle, third
 * low-latency operation in flight) throws {@link IllegalStateException}.
 *
 * <p><b>Devices:</b> a device engine uses tensors of its device without a copy and copies host
 * tensors. Without a stream in the options, a call behaves as on the host. With a stream, the call
 * returns after the work is enqueued; the event of the operation or the next call throws its
 * errors.
 *
 * <p><b>First calls</b> take up to seconds: the JVM loads and compiles code, a device engine
 * compiles kernels and allocates. {@link #warmUp()} pays for that at the start.
 *
 * <p><b>Memory:</b> results are views into the buffer; each result type defines their lifetime. A
 * warm buffer allocates nothing per call, except the event of an asynchronous call.
 */
public interface ExpertBuffer extends AutoCloseable {
  /**
   * Opens a buffer on every rank of {@code group}; collective.
   *
   * @param group the ranks; the buffer does not close the group
   * @param config the same on every rank
   * @throws ConfigurationMismatchException if ranks disagree; names the rank and the field
   * @throws EngineUnavailableException if the requested engine cannot run on this machine
   * @throws Ep4jException if a rank cannot allocate or map the memory; names the rank
   */
  static ExpertBuffer open(Group group, BufferConfig config) {
    return Engines.open(group, config);
  }

  /**
   * Memory that a buffer of this configuration reserves on each of {@code ranks} ranks, in bytes;
   * opens nothing. Without {@link BufferConfig#ranksPerNode()} all ranks are of one node. On GPUs
   * the wire {@code auto} counts as one between hosts, and GPUDirect that is left open as off: with
   * {@link #config()} of an open buffer the sizes are those of that buffer.
   *
   * @throws EngineUnavailableException if the requested engine cannot run on this machine
   */
  static BufferSizes sizes(BufferConfig config, int ranks) {
    return Engines.sizes(config, ranks);
  }

  /**
   * Opens the buffer of a restarted rank among ranks that kept theirs. Collective with {@link
   * #readmit} on those ranks, after {@link Group#rejoin} on this rank and {@link Group#readmit} on
   * the others. If the group has several buffers, all ranks process them in the same order.
   *
   * @throws ConfigurationMismatchException if the configuration of this rank differs (names the
   *     field), or if this rank runs on another host than the ranks that shared memory with its
   *     predecessor
   * @throws IllegalStateException if the ranks are threads of one process
   */
  static ExpertBuffer rejoin(Group group, BufferConfig config) {
    return Engines.rejoin(group, config);
  }

  /** This rank. */
  int rank();

  /** Number of ranks R. */
  int worldSize();

  /**
   * The configuration with the choices of the engine filled in: engine, placement, rows of the
   * receive region, ranks per node, parallelism at open, and, where the engine uses them, wire and
   * backend.
   */
  BufferConfig config();

  /** Name of the engine: {@code host} or {@code cuda}. */
  String engine();

  /** Number of the GPU of this rank in this process; empty if the engine computes on the host. */
  OptionalInt deviceOrdinal();

  /**
   * Counts tokens per rank, node and expert. Local: sends nothing. Does not wait for work of a
   * stream that still writes the routing; a {@link RoutingCounter} counts in the order of a stream.
   *
   * @param routing expert ids [T, K], T at most {@link HighThroughputConfig#maxTokens()}
   * @throws InvalidArgumentException if a shape is invalid or, on the host engine, an id is invalid
   */
  default DispatchLayout dispatchLayout(Routing routing) {
    return dispatchLayout(routing, 0);
  }

  /**
   * The same for a call of another number of experts.
   *
   * @param experts as in {@link DispatchOptions#experts()}
   */
  DispatchLayout dispatchLayout(Routing routing, int experts);

  /**
   * Sends each token once to each rank that owns one of its experts; collective. A token arrives as
   * one row, {@link Layout#FLAT}. Rows and scales arrive bit for bit.
   *
   * @param tokens rows [T, H], T at most {@link HighThroughputConfig#maxTokens()}, H at most {@link
   *     BufferConfig#hidden()} and the same on all ranks, elements at most as wide as {@link
   *     HighThroughputConfig#rowDType()}, with optional scales [T, S]
   * @param routing expert ids INT64 or INT32 [T, K] and optional weights FP32 [T, K]
   * @throws InvalidArgumentException if a shape, dtype or id is invalid; nothing is sent
   * @throws ReceiveOverflowException if the rows do not fit with {@link Sizing#EXACT}: on all
   *     ranks, with the number of rows that suffices for all; nothing is sent. The event and the
   *     results of an asynchronous call throw it
   * @throws PeerTimeoutException if a peer is silent for {@link BufferConfig#timeout()}, or dead
   */
  default FlatDispatch dispatch(Tokens tokens, Routing routing, DispatchOptions options) {
    return (FlatDispatch) dispatch(Layout.FLAT, tokens, routing, options);
  }

  /** {@link #dispatch(Tokens, Routing, DispatchOptions)} with {@link DispatchOptions#DEFAULT}. */
  default FlatDispatch dispatch(Tokens tokens, Routing routing) {
    return dispatch(tokens, routing, DispatchOptions.DEFAULT);
  }

  /** {@link #dispatch(Tokens, Routing, DispatchOptions)} of rows without scales. */
  default FlatDispatch dispatch(Tensor x, Routing routing, DispatchOptions options) {
    return dispatch(Tokens.of(x), routing, options);
  }

  /** {@link #dispatch(Tokens, Routing)} of rows without scales. */
  default FlatDispatch dispatch(Tensor x, Routing routing) {
    return dispatch(Tokens.of(x), routing, DispatchOptions.DEFAULT);
  }

  /**
   * Dispatch that delivers one row per (token, local expert), grouped by expert and ready for a
   * grouped matrix product, {@link Layout#EXPERT_MAJOR}; collective. All ranks use the same layout
   * in the same operation. Parameters and errors are those of {@link #dispatch(Tokens, Routing,
   * DispatchOptions)}.
   */
  default GroupedDispatch dispatchGrouped(Tokens tokens, Routing routing, DispatchOptions options) {
    return (GroupedDispatch) dispatch(Layout.EXPERT_MAJOR, tokens, routing, options);
  }

  /** Grouped dispatch with {@link DispatchOptions#DEFAULT}. */
  default GroupedDispatch dispatchGrouped(Tokens tokens, Routing routing) {
    return dispatchGrouped(tokens, routing, DispatchOptions.DEFAULT);
  }

  /** Grouped dispatch of rows without scales. */
  default GroupedDispatch dispatchGrouped(Tensor x, Routing routing, DispatchOptions options) {
    return dispatchGrouped(Tokens.of(x), routing, options);
  }

  /** Grouped dispatch with {@link DispatchOptions#DEFAULT}, of rows without scales. */
  default GroupedDispatch dispatchGrouped(Tensor x, Routing routing) {
    return dispatchGrouped(Tokens.of(x), routing, DispatchOptions.DEFAULT);
  }

  /**
   * Cached dispatch: sends new rows along the routes of {@code handle}, without layout and counts;
   * collective. Choices and weights are those of the first dispatch and are not sent again: {@link
   * FlatDispatch#topkIdx()} and the weights of the result throw.
   *
   * @param tokens rows [T, H] with the T of the handle
   * @param handle of {@link #dispatch}
   * @throws InvalidArgumentException if the payload does not fit the handle, or the handle is of a
   *     grouped dispatch; nothing is sent
   * @throws IllegalStateException if the handle is closed or outdated
   * @throws PeerTimeoutException if a peer is silent for {@link BufferConfig#timeout()}, or dead
   */
  default FlatDispatch dispatch(Tokens tokens, DispatchHandle handle, Execution execution) {
    return (FlatDispatch) dispatch(Layout.FLAT, tokens, handle, execution);
  }

  /** Synchronous cached dispatch. */
  default FlatDispatch dispatch(Tokens tokens, DispatchHandle handle) {
    return dispatch(tokens, handle, Execution.SYNCHRONOUS);
  }

  /**
   * Cached grouped dispatch: like {@link #dispatch(Tokens, DispatchHandle, Execution)}, with the
   * handle of a {@link #dispatchGrouped}.
   */
  default GroupedDispatch dispatchGrouped(
      Tokens tokens, DispatchHandle handle, Execution execution) {
    return (GroupedDispatch) dispatch(Layout.EXPERT_MAJOR, tokens, handle, execution);
  }

  /** Synchronous cached grouped dispatch. */
  default GroupedDispatch dispatchGrouped(Tokens tokens, DispatchHandle handle) {
    return dispatchGrouped(tokens, handle, Execution.SYNCHRONOUS);
  }

  /**
   * Dispatch for callers that choose the layout at run time: with {@link Layout#FLAT} the result is
   * a {@link FlatDispatch}, with {@link Layout#EXPERT_MAJOR} a {@link GroupedDispatch}. Otherwise
   * like {@link #dispatch(Tokens, Routing, DispatchOptions)}.
   *
   * @throws InvalidArgumentException if the layout is neither of the two
   */
  Dispatch dispatch(Layout layout, Tokens tokens, Routing routing, DispatchOptions options);

  /**
   * Cached dispatch for callers that choose the layout at run time; {@code layout} is that of the
   * handle.
   */
  Dispatch dispatch(Layout layout, Tokens tokens, DispatchHandle handle, Execution execution);

  /**
   * Returns rows to their source ranks and sums them per token; collective. <b>Routing weights are
   * not applied</b> (as in DeepEP V1), whether the dispatch had weights or not, unless {@link
   * CombineOptions#applyWeights} is set: multiply each row by its weight before this call. After
   * {@link #dispatchGrouped} the weight of a row is in {@link GroupedDispatch#rowWeights}, or let
   * combine apply it; a row of {@link #dispatch} is the weighted sum over its local experts, and
   * combine cannot apply weights. Low-latency combine applies the weights.
   *
   * @param y BF16, FP16 or FP32, at least [N, H], in the row order of the handle's dispatch; H at
   *     most {@link BufferConfig#hidden()}, also another one than that of the dispatch. {@link
   *     Dispatch#combineInput} needs no copy; any other memory, {@link Dispatch#x()} included, is
   *     allowed. Ranks that are threads of one process read native memory directly: keep the memory
   *     until the combine has ended and, after a {@link PeerTimeoutException}, until {@link
   *     #reset()} has returned
   * @param handle handle of the dispatch whose rows {@code y} holds
   * @return sums [T, H] in the dtype of {@code y}
   * @throws InvalidArgumentException if a shape or dtype does not fit the handle; nothing is sent
   * @throws IllegalStateException if the handle is closed or outdated
   * @throws PeerTimeoutException if a peer is silent for {@link BufferConfig#timeout()}, or dead
   */
  Combine combine(Tensor y, DispatchHandle handle, CombineOptions options);

  /** Combine with {@link CombineOptions#DEFAULT}; routing weights are not applied. */
  default Combine combine(Tensor y, DispatchHandle handle) {
    return combine(y, handle, CombineOptions.DEFAULT);
  }

  /**
   * Sends BF16 rows [T, H] to the ranks of their experts, T at most {@link
   * LowLatencyConfig#maxTokens()}; collective. H is a multiple of 128, at most {@link
   * BufferConfig#hidden()}, and the same on all ranks. Options select quantisation. A row arrives
   * once per local expert, {@link Layout#EXPERT_MAJOR}.
   *
   * @throws InvalidArgumentException if a shape, dtype or option is invalid; nothing is sent
   * @throws IllegalStateException if two low-latency operations are already in flight
   * @throws PeerTimeoutException if a peer misses the deadline and masking is off
   */
  default LowLatencyDispatch lowLatencyDispatch(
      Tensor x, Routing routing, LowLatencyDispatchOptions options) {
    return lowLatencyDispatch(Layout.EXPERT_MAJOR, x, routing, options);
  }

  /**
   * Low-latency dispatch that delivers a row once per token, with its choices and weights, {@link
   * Layout#RANK_MAJOR}; collective. All ranks use the same layout in the same operation. Errors are
   * those of {@link #lowLatencyDispatch}.
   */
  default RankMajorDispatch lowLatencyDispatchByRank(
      Tensor x, Routing routing, LowLatencyDispatchOptions options) {
    return (RankMajorDispatch) lowLatencyDispatch(Layout.RANK_MAJOR, x, routing, options);
  }

  /**
   * Low-latency dispatch for callers that choose the layout at run time: with {@link
   * Layout#RANK_MAJOR} the result is a {@link RankMajorDispatch}. Otherwise like {@link
   * #lowLatencyDispatch(Tensor, Routing, LowLatencyDispatchOptions)}.
   *
   * @throws InvalidArgumentException if the layout is {@link Layout#FLAT}
   */
  LowLatencyDispatch lowLatencyDispatch(
      Layout layout, Tensor x, Routing routing, LowLatencyDispatchOptions options);

  /**
   * Sums the rows of each token, BF16 [T, H]; collective. <b>Applies the routing weights</b>: each
   * row is multiplied by its weight, unlike in high-throughput combine. Exception: after a dispatch
   * with {@link Layout#RANK_MAJOR} the rows are partial sums that the caller has weighted, and they
   * are only added.
   *
   * @param y BF16 [L, R*M, H] in the row order of the dispatch and with its H; RANK_MAJOR: [R, M,
   *     H], one row per token, weighted and summed over the local experts
   * @param routing ids as dispatched and weights FP32 [T, K]; an id that is now -1 skips its slot.
   *     RANK_MAJOR: only the shape is used
   * @throws InvalidArgumentException if a shape, dtype or option is invalid; nothing is sent
   * @throws IllegalStateException if the handle is outdated
   * @throws PeerTimeoutException if a peer misses the deadline and masking is off
   */
  LowLatencyCombine lowLatencyCombine(
      Tensor y, Routing routing, LowLatencyHandle handle, LowLatencyCombineOptions options);

  /**
   * The region, with the shape of {@code y}, from which the next {@link #lowLatencyCombine} with
   * {@code zeroCopy} sends. Valid until that combine. The rows that have arrived have memory when
   * the call returns; before the hook of the dispatch their number is unknown, and all rows get
   * memory.
   *
   * @throws Ep4jException if the system has no memory left for these rows
   */
  Tensor lowLatencyCombineBuffer(LowLatencyHandle handle);

  /**
   * Masks or unmasks a rank on this rank. Operations send nothing to a masked rank, do not wait for
   * it, and skip its contributions.
   *
   * <p>CUDA engine on several nodes: requires {@link org.ep4j.config.LowLatencyConfig#masking}, and
   * admits only a rank that has missed no operation; {@link #cleanMask} admits the others.
   *
   * @throws IllegalStateException if the rank has missed operations, with the CUDA engine on
   *     several nodes
   */
  void updateMask(int rank, boolean masked);

  /** Whether this rank masks {@code rank}. */
  boolean isMasked(int rank);

  /**
   * Writes 1 for each masked rank and 0 for the others into {@code mask}, INT32 [R]. With a device
   * engine {@code mask} may be in memory of its device; the call returns after the copy, and does
   * not wait for work that still uses {@code mask}.
   */
  void queryMask(Tensor mask);

  /**
   * Unmasks all ranks; with masking, ranks that are lost or have closed their buffer stay masked.
   *
   * <p>A masked rank has missed low-latency operations; this call lets it continue with the
   * operation count of the others. Therefore all ranks call it while no rank is inside a
   * low-latency operation, between two {@link #barrier()}s of this buffer (a barrier of the group
   * does not bring the counts of other nodes), and not between a dispatch and its combine: a rank
   * that was masked while its rows arrived gets no rows back. It then masks the rank that masked it
   * or, without masking, throws {@link PeerTimeoutException}.
   *
   * <p>CUDA engine on several nodes: the live ranks meet in this call, and it fails on all of them
   * if one does not call it within twice the buffer's timeout.
   */
  void cleanMask();

  /** SMs (CUDA) or threads (host) that an operation may use. */
  int parallelism();

  /**
   * Changes {@link #parallelism()}.
   *
   * @param sms SMs or threads; 0 = the engine chooses. More than 1024 threads on the host count as
   *     1024; more SMs than the GPU has for this rank are refused
   */
  void setParallelism(int sms);

  /**
   * Runs the configured operations with a few tokens of zeros, so that later calls take their usual
   * time; collective. Call it after {@link #open} and before the first operation, or between
   * operations: it outdates results. {@link #statistics()} counts its operations.
   *
   * @throws PeerTimeoutException if a rank does not call it within {@link BufferConfig#timeout()}
   */
  default void warmUp() {
    Engines.warmUp(this);
  }

  /**
   * Waits until all ranks have called it that {@link #reset()} has not left out; collective. Masks
   * do not count, they belong to low-latency operations: a masked rank that lives calls it too.
   *
   * @throws PeerTimeoutException if a rank is dead, even if it is masked, or does not call it
   *     within {@link BufferConfig#timeout()}
   */
  void barrier();

  /**
   * Makes the buffer usable after a {@link PeerTimeoutException}; collective among the live ranks.
   * Dead ranks are masked afterwards: rows for their experts are not sent.
   *
   * <p>Host engine: if a rank of the node is lost, the content of all memory that the buffer has
   * returned is lost, tensors of earlier results included. The addresses stay valid and read as
   * zeros. A lost rank that was only stopped keeps the old memory for itself.
   *
   * <p>CUDA engine on several nodes: continues on wires that stop the traffic of a lost rank
   * ({@code tcp}, {@code verbs}, {@code nccl}). The engine cannot continue if a node has lost one
   * of several ranks and another one would have to exchange more tokens than high throughput has
   * memory for ({@link HighThroughputConfig#lostRanks} reserves it), or if a lane between live
   * ranks has failed.
   *
   * @throws UnsupportedOperationException if the engine cannot continue without a lost rank; open
   *     another buffer among the live ranks
   */
  void reset();

  /**
   * Readmits restarted ranks; collective among the live ranks, after {@link Group#readmit}. Does
   * what {@link #reset} does and includes the restarted ranks, which call {@link #rejoin} at the
   * same time. These ranks are then unmasked and take part in all operations. The other ranks keep
   * the buffer, its memory and their mappings of each other. Results and handles of earlier
   * operations are outdated, as after a reset.
   *
   * <p>CUDA engine on several nodes: the ranks connect the nodes anew, with other receive memory,
   * so for a moment they need memory for both connections. This works over every wire but {@code
   * backend}, also over those that refuse {@link #reset} after a loss. If ranks stay lost, high
   * throughput needs memory for the others as in {@link #reset}. It is refused on all ranks if one
   * has captured low-latency operations in a graph; graphs of high throughput stay good.
   *
   * <p>Until then the buffer excludes the restarted ranks, as since their loss. If they are lost
   * again during the call, or not all ranks call it, the call throws an exception that names them,
   * within twice the buffer's timeout per step. The live ranks then call {@link #reset}, and the
   * buffer continues without the lost ones.
   *
   * @throws IllegalStateException if no rank has been readmitted to the group, or the backend
   *     between GPUs, the connection between nodes, or a captured graph does not permit it
   * @throws ConfigurationMismatchException if a restarted rank has another configuration
   * @throws org.ep4j.group.GroupException if ranks are missing; names them
   */
  void readmit();

  /** Counters and sizes of this rank. */
  BufferStatistics statistics();

  /**
   * What this rank has seen: the ranks for which it waited in the last 200 operations, and the
   * tokens of its experts. Any thread, also while another one is inside an operation. {@link
   * WorldObservation#gather} brings the observations of all ranks together and says which rank or
   * link is slow.
   *
   * <p>Never waits, neither for operations nor for a GPU. CUDA engine: kernels count, and publish
   * their counters with the last of every 20 operations, also of replayed graphs. So operations
   * that still run, and those since then, are missing, and tokens are as of then. {@code barrier}
   * and the sending half of an operation with a hook do not count as operations.
   */
  RankObservation observe();

  /**
   * Releases everything. Mappings of the peers stay valid until the peers close too. Waits for
   * queued operations, which all have deadlines; an interrupt of the thread ends their waits.
   */
  @Override
  void close();
}
