package org.ep4j.moe;

import java.util.Objects;
import java.util.Optional;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.moe.gpu.CudaLayerDevice;
import org.ep4j.moe.gpu.LayerDevice;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * A Mixture-of-Experts layer whose experts are spread over ranks: router, dispatch, SwiGLU experts,
 * weighted combine, shared expert. The engine of the buffer decides where it computes.
 *
 * <p><b>Engine {@code host}:</b> in FP32, from and to tensors of the host. A token's result has the
 * same bits on any number of ranks, with any placement of experts and any other tokens in the
 * batch. Gradients of experts depend on the order of tokens over all ranks, and on nothing else.
 *
 * <p><b>Engine {@code cuda}:</b> in BF16 with sums in FP32, from and to tensors of the rank's GPU.
 * Calls return when their results are there. The layer owns the memory of results: that of {@link
 * #forward} and {@link #decode} is valid until the next of these calls, that of {@link #backward}
 * until its next call. Sums depend on the ranks of experts, {@link org.ep4j.CombineOrder#RANK}, but
 * not on time: repetitions have the same bits.
 *
 * <p>Layers of one shape share a buffer. Methods are collective: all ranks call them in the same
 * order, a rank without tokens with [0, H]. One thread at a time uses a buffer.
 */
public final class MoeLayer implements AutoCloseable {
  private final Passes passes;
  private final RowTypes types;

  /**
   * A layer whose experts exist once, where the buffer has them.
   *
   * @param buffer of {@link #bufferConfig}, or with other settings
   * @param weights copied: to FP32 on the host, to BF16 or FP8 on a GPU
   * @throws InvalidArgumentException if buffer, shape and weights do not fit together
   * @throws org.ep4j.error.EngineUnavailableException if a GPU lacks cuBLAS
   */
  public MoeLayer(ExpertBuffer buffer, MoeShape shape, MoeWeights weights) {
    this(buffer, shape, ReplicatedPlacement.of(placement(buffer)), weights);
  }

  /**
   * A layer with replicas of experts.
   *
   * @param buffer of {@link #bufferConfig}, or with other settings
   * @param placement of the buffer's experts, the physical ones
   * @param weights of this rank's physical experts; copied: to FP32 on the host, to BF16 on a GPU,
   *     but those of FP8 with whole blocks to FP8
   * @throws InvalidArgumentException if buffer, shape, placement and weights do not fit together
   * @throws org.ep4j.error.EngineUnavailableException if a GPU lacks cuBLAS
   */
  public MoeLayer(
      ExpertBuffer buffer, MoeShape shape, ReplicatedPlacement placement, MoeWeights weights) {
    this(buffer, shape, placement, weights, Optional.empty());
  }

  /**
   * A layer whose tokens travel in a given type, with replicas of experts or not.
   *
   * <p>With {@link DType#FP8_E4M3}, tokens are rounded to BF16 and quantised with an FP32 scale for
   * each 128 elements, and experts compute with the products of elements and scales, rounded to
   * BF16. Router and shared expert take the tokens as they are. Results and gradients travel in
   * BF16, or in the wider type of the buffer's rows on the host. The gradient passes through the
   * quantisation as if it were the identity.
   *
   * @param tokens {@link DType#FP8_E4M3} also over a buffer for wider rows, as training needs it;
   *     or the type of the buffer's rows, on GPUs BF16
   * @throws InvalidArgumentException as above, or if FP8 rows have no whole blocks of 128
   */
  public MoeLayer(
      ExpertBuffer buffer,
      MoeShape shape,
      ReplicatedPlacement placement,
      MoeWeights weights,
      DType tokens) {
    this(buffer, shape, placement, weights, Optional.of(tokens));
  }

  private MoeLayer(
      ExpertBuffer buffer,
      MoeShape shape,
      ReplicatedPlacement placement,
      MoeWeights weights,
      Optional<DType> tokens) {
    types = requireFit(buffer, shape, placement, weights, tokens);
    passes =
        buffer.deviceOrdinal().isEmpty()
            ? new HostPasses(buffer, shape, placement, weights, types)
            : DevicePasses.of(
                CudaLayerDevice.open(buffer.deviceOrdinal().getAsInt()),
                buffer,
                shape,
                placement,
                weights,
                types);
  }

  /** A layer on a given device, which it closes. */
  MoeLayer(
      LayerDevice device,
      ExpertBuffer buffer,
      MoeShape shape,
      ReplicatedPlacement placement,
      MoeWeights weights,
      Optional<DType> tokens) {
    types = requireFit(buffer, shape, placement, weights, tokens);
    passes = DevicePasses.of(device, buffer, shape, placement, weights, types);
  }

  private static RowTypes requireFit(
      ExpertBuffer buffer,
      MoeShape shape,
      ReplicatedPlacement placement,
      MoeWeights weights,
      Optional<DType> tokens) {
    BufferConfig config = buffer.config();
    if (buffer.deviceOrdinal().isEmpty()) {
      check("buffer.engine", config.engine(), EngineName.HOST);
    }
    check("buffer.hidden", config.hidden(), shape.hidden());
    check("buffer.topK", config.topK(), shape.router().topK());
    check("placement.experts", placement.experts(), shape.router().experts());
    check("buffer.placement", placement(buffer), placement.placement());
    check(
        "buffer.highThroughput.layouts",
        config
            .highThroughput()
            .filter(ht -> ht.layouts().contains(Layout.EXPERT_MAJOR))
            .isPresent(),
        true);
    int local = placement.placement().localExperts(buffer.rank());
    check("weights.experts", weights.experts().size(), local);
    check("weights.shared", weights.shared().isPresent(), shape.sharedIntermediate() > 0);
    RowTypes types =
        tokens.map(type -> RowTypes.of(buffer, type)).orElseGet(() -> RowTypes.of(buffer));
    RowTypes.requireBlocks(types.tokens(), shape.hidden());
    return types;
  }

  private static ExpertPlacement placement(ExpertBuffer buffer) {
    return Objects.requireNonNull(buffer.config().placement(), "settled placement");
  }

  static void check(String argument, Object value, Object expected) {
    if (!value.equals(expected)) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE,
          argument,
          String.valueOf(value),
          String.valueOf(expected),
          "use buffer, shape and weights of one layer");
    }
  }

  /**
   * Settings of a buffer for such layers on the host: experts in blocks, FP32 rows.
   *
   * @param maxTokens most tokens of a rank
   */
  public static BufferConfig.Builder bufferConfig(MoeShape shape, int ranks, int maxTokens) {
    ExpertPlacement blocks = ExpertPlacement.blocks(shape.router().experts(), ranks);
    return bufferConfig(shape, ReplicatedPlacement.of(blocks), maxTokens);
  }

  /**
   * Settings of a buffer for such layers with replicas on the host: FP32 rows.
   *
   * @param maxTokens most tokens of a rank
   */
  public static BufferConfig.Builder bufferConfig(
      MoeShape shape, ReplicatedPlacement placement, int maxTokens) {
    return bufferConfig(EngineName.HOST, shape, placement, maxTokens);
  }

  /**
   * Settings of a buffer for such layers with replicas: on GPUs BF16 rows, otherwise FP32 rows.
   *
   * @param engine {@link EngineName#HOST} or {@link EngineName#CUDA}
   * @param maxTokens most tokens of a rank
   */
  public static BufferConfig.Builder bufferConfig(
      String engine, MoeShape shape, ReplicatedPlacement placement, int maxTokens) {
    boolean onHost = engine.equals(EngineName.HOST);
    return bufferConfig(engine, shape, placement, maxTokens, onHost ? DType.FP32 : DType.BF16);
  }

  /**
   * Settings of a buffer for such layers with replicas, for rows of a given type.
   *
   * @param engine {@link EngineName#HOST} or {@link EngineName#CUDA}
   * @param maxTokens most tokens of a rank
   * @param rows with {@link DType#FP8_E4M3}, tokens of a layer travel in FP8, and it does not
   *     train: pass a wider type here and FP8_E4M3 to the layer for that
   * @throws InvalidArgumentException if FP8 rows have no whole blocks of 128
   */
  public static BufferConfig.Builder bufferConfig(
      String engine, MoeShape shape, ReplicatedPlacement placement, int maxTokens, DType rows) {
    if (!engine.equals(EngineName.HOST)) {
      check("engine", engine, EngineName.CUDA);
    }
    RowTypes.requireBlocks(rows, shape.hidden());
    return BufferConfig.builder()
        .engine(engine)
        .hidden(shape.hidden())
        .topK(shape.router().topK())
        .placement(placement.placement())
        .highThroughput(
            HighThroughputConfig.builder()
                .maxTokens(maxTokens)
                .rowDType(rows)
                .layouts(Layout.EXPERT_MAJOR)
                .build());
  }

  /**
   * The layer's result.
   *
   * @param x this rank's tokens, [T, H]: on the host of a floating-point type, on a GPU BF16
   * @return FP32 [T, H] on the heap, or BF16 [T, H] on the GPU
   */
  public Tensor forward(Tensor x) {
    return passes.forward(x);
  }

  /**
   * The layer's result for few tokens, by low latency. Tokens travel in FP8 if those of {@link
   * #forward} do, and otherwise in BF16, results in BF16. On the host, without a shared expert, the
   * result has the bits of {@link #forward} over a buffer whose rows are BF16.
   *
   * @param x this rank's tokens as of {@link #forward}; at most as many as low latency of the
   *     buffer accepts
   * @return FP32 [T, H] on the heap, or BF16 [T, H] on the GPU
   * @throws IllegalStateException if the buffer has no low latency
   */
  public Tensor decode(Tensor x) {
    return passes.decode(x);
  }

  /**
   * Records {@link #decode} for two tensors, so that a replay is one call of the driver: on a GPU,
   * a CUDA graph. The number of tokens and the memory of both tensors are fixed; both are in use
   * until the step is closed. Collective; decodes into {@code y}: once on the host, twice on a GPU.
   *
   * @param x this rank's tokens as of {@link #decode}
   * @param y where replays put their results, [T, H]: on the host of a floating-point type, on a
   *     GPU BF16
   * @throws IllegalStateException if the buffer has no low latency
   */
  public DecodeStep captureDecode(Tensor x, Tensor y) {
    return passes.captureDecode(x, y);
  }

  /**
   * As {@link #forward}, and keeps what {@link #backward} needs. On a GPU, the tokens do not change
   * until then, and the result is valid until the pass is closed.
   *
   * @throws IllegalStateException if the buffer has rows of FP8 alone; nothing is sent
   */
  public ForwardPass forwardForTraining(Tensor x) {
    types.requireGradients();
    return passes.forwardForTraining(x);
  }

  /** Durations of the last forward pass or decoding on this rank. */
  public LayerTimes times() {
    return passes.times();
  }

  /**
   * The gradients of a forward pass, along its routes.
   *
   * @param pass of this layer, used once; closed by this call
   * @param gradOfY gradient of {@link ForwardPass#y}, [T, H]: on the host of a floating-point type,
   *     on a GPU BF16 or FP32
   * @return FP32, on the heap or on the GPU
   * @throws InvalidArgumentException if the pass is of another layer; it stays open
   * @throws IllegalStateException if the pass is closed; nothing is sent
   */
  public MoeGradients backward(ForwardPass pass, Tensor gradOfY) {
    return passes.backward(pass, gradOfY);
  }

  /** Frees memory of a GPU; on the host, there is nothing to free. The buffer stays open. */
  @Override
  public void close() {
    passes.close();
  }
}
