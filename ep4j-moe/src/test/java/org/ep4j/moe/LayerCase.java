package org.ep4j.moe;

import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;

/**
 * A layer of {@link MoeLayerKit}, its tokens, and how ranks share them. The same on each rank, also
 * in another process.
 *
 * @param model names the shape
 * @param replicas whether four experts exist twice
 * @param tokens of all ranks
 * @param fp8 whether tokens travel in FP8
 */
record LayerCase(String model, int ranks, boolean replicas, int tokens, boolean fp8) {
  private static final int REPLICAS = 4;

  /** A case whose tokens travel as they are. */
  LayerCase(String model, int ranks, boolean replicas, int tokens) {
    this(model, ranks, replicas, tokens, false);
  }

  LayerCase inFp8() {
    return new LayerCase(model, ranks, replicas, tokens, true);
  }

  /** The case of {@link #words}. */
  static LayerCase of(List<String> words) {
    return new LayerCase(
        words.get(0),
        Integer.parseInt(words.get(1)),
        Boolean.parseBoolean(words.get(2)),
        Integer.parseInt(words.get(3)),
        Boolean.parseBoolean(words.get(4)));
  }

  /** As arguments of a process. */
  List<String> words() {
    return List.of(
        model,
        String.valueOf(ranks),
        String.valueOf(replicas),
        String.valueOf(tokens),
        String.valueOf(fp8));
  }

  /** In which tokens travel on a GPU. */
  DType typeOfTokens() {
    return fp8 ? DType.FP8_E4M3 : DType.BF16;
  }

  /**
   * Shapes as in Mixtral, Qwen3-MoE and DeepSeek-V3, one with matrices of many tiles, and one with
   * tokens of three blocks: {@code sent} as they are, {@code received} as FP8 delivers them. Layers
   * with weights of FP8 have matrices of whole blocks, or of parts of blocks, for which there is no
   * room in FP8 on a GPU.
   */
  MoeShape shape() {
    return switch (model) {
      case "mixtral" -> new MoeShape(128, 40, 0, RouterConfig.softmax(8, 2));
      case "qwen" ->
          new MoeShape(
              128, 24, 0, new RouterConfig(12, 3, RouterConfig.Scores.SOFTMAX, false, 1, 4, 2));
      case "deepseek" -> new MoeShape(128, 32, 56, RouterConfig.sigmoid(12, 4, 4, 2, 2.5f));
      case "sent", "received" ->
          new MoeShape(3 * Fp8Values.BLOCK, 24, 0, RouterConfig.sigmoid(12, 4, 4, 2, 2.5f));
      case "weights" -> new MoeShape(256, 128, 128, RouterConfig.softmax(6, 2));
      case "products" -> new MoeShape(512, 512, 0, RouterConfig.softmax(3, 2));
      case "parts" -> new MoeShape(128, 136, 0, RouterConfig.softmax(4, 2));
      case "larger", "larger weights" ->
          new MoeShape(1024, 512, 512, RouterConfig.sigmoid(32, 4, 8, 4, 2.5f));
      default -> throw new AssertionError(model);
    };
  }

  RandomLayer layer() {
    var layer = new RandomLayer(shape(), 21);
    return switch (model) {
      case "sent", "received" -> layer.withRouterOf(Fp8Values.BLOCK);
      case "weights", "products", "parts", "larger weights" -> layer.inFp8();
      default -> layer;
    };
  }

  int experts() {
    return shape().router().experts();
  }

  /**
   * Bound of the results of a pass that is no decoding. Where SwiGLU's result is quantised, which
   * the host does not do, each of its elements has an error of up to 1/16.
   */
  double bound() {
    boolean products = model.equals("products") || model.equals("larger weights");
    return fp8 && products ? Closeness.QUANTISED_BOUND : Closeness.BOUND;
  }

  /** Logical experts of physical ones. */
  int[] logicalOf() {
    return IntStream.range(0, replicas ? experts() + REPLICAS : experts())
        .map(physical -> physical % experts())
        .toArray();
  }

  ReplicatedPlacement placement() {
    int[] logicalOf = logicalOf();
    return ReplicatedPlacement.of(
        ExpertPlacement.blocks(logicalOf.length, ranks), logicalOf, experts());
  }

  /** Tokens of all ranks. */
  float[] x() {
    int hidden = shape().hidden();
    return switch (model) {
      case "sent" -> Fp8Values.tokens(tokens, hidden);
      case "received" -> Fp8Values.received(Fp8Values.tokens(tokens, hidden));
      default -> RandomLayer.values(new SplittableRandom(22), tokens * hidden, 1);
    };
  }

  /** Gradients of the results of all tokens. */
  float[] grad() {
    return RandomLayer.values(new SplittableRandom(23), tokens * shape().hidden(), 1);
  }

  /** The rows of a rank: ranks share them in order, and the last of three has none. */
  float[] share(float[] rows, int rank) {
    int shares = ranks == 3 ? 2 : ranks;
    int hidden = shape().hidden();
    int from = Math.min(shares, rank) * tokens / shares * hidden;
    int to = Math.min(shares, rank + 1) * tokens / shares * hidden;
    return Arrays.copyOfRange(rows, from, to);
  }
}
