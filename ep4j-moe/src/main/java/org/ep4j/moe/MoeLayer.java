package org.ep4j.moe;

import java.util.Objects;
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

  /**
   * A layer whose experts exist once, where the buffer has them.
   *
   * @param buffer of {@link #bufferConfig}, or with other settings
   * @param weights copied: to FP32 on the host, to BF16 on a GPU
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
   * @param weights of this rank's physical experts; copied: to FP32 on the host, to BF16 on a GPU
   * @throws InvalidArgumentException if buffer, shape, placement and weights do not fit together
   * @throws org.ep4j.error.EngineUnavailableException if a GPU lacks cuBLAS
   */
  public MoeLayer(
      ExpertBuffer buffer, MoeShape shape, ReplicatedPlacement placement, MoeWeights weights) {
    requireFit(buffer, shape, placement, weights);
    passes =
        buffer.deviceOrdinal().isEmpty()
            ? new HostPasses(buffer, shape, placement, weights)
            : DevicePasses.of(
                CudaLayerDevice.open(buffer.deviceOrdinal().getAsInt()),
                buffer,
                shape,
                placement,
                weights);
  }

  /** A layer on a given device, which it closes. */
  MoeLayer(
      LayerDevice device,
      ExpertBuffer buffer,
      MoeShape shape,
      ReplicatedPlacement placement,
      MoeWeights weights) {
    requireFit(buffer, shape, placement, weights);
    passes = DevicePasses.of(device, buffer, shape, placement, weights);
  }

  private static void requireFit(
      ExpertBuffer buffer, MoeShape shape, ReplicatedPlacement placement, MoeWeights weights) {
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
    if (!onHost) {
      check("engine", engine, EngineName.CUDA);
    }
    return BufferConfig.builder()
        .engine(engine)
        .hidden(shape.hidden())
        .topK(shape.router().topK())
        .placement(placement.placement())
        .highThroughput(
            HighThroughputConfig.builder()
                .maxTokens(maxTokens)
                .rowDType(onHost ? DType.FP32 : DType.BF16)
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
   * The layer's result for few tokens, by low latency. Rows travel in BF16. On the host, without a
   * shared expert, the result has the bits of {@link #forward} over a buffer whose rows are BF16.
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
   * As {@link #forward}, and keeps what {@link #backward} needs. On a GPU, the tokens do not change
   * until then, and the result is valid until the pass is closed.
   */
  public ForwardPass forwardForTraining(Tensor x) {
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
