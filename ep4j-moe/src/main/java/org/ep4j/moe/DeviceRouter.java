package org.ep4j.moe;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Optional;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.moe.cublas.Product;
import org.ep4j.moe.gpu.Bf16Weights;
import org.ep4j.moe.gpu.DeviceScratch;
import org.ep4j.moe.gpu.LayerDevice;
import org.ep4j.moe.gpu.MoeKernel;
import org.ep4j.moe.gpu.WorkQueue;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * The choice of experts on a GPU, and its gradient. Logits are products of BF16 in FP32; equal
 * logits give the choices and weights of {@link Router}, bit for bit.
 */
final class DeviceRouter {
  /** A warp keeps the scores of a token in shared memory. */
  static final int MAX_EXPERTS = 1024;

  private final LayerDevice device;
  private final RouterConfig config;
  private final int hidden;
  private final int rank;

  /** BF16 [E, H]. */
  private final long weights;

  /** FP32 [E]; 0: none. */
  private final long bias;

  /** Word in which the kernel reports a logit. */
  private final long bad;

  /** Tables of replicas; 0: every expert exists once. */
  private final long firstReplicas;

  private final long replicas;

  /**
   * Choices of tokens.
   *
   * @param logits FP32 [T, E]
   * @param scores FP32 [T, E]
   * @param ids INT32 [T, K], logical
   */
  record Choices(long logits, long scores, long ids, Routing routing) {}

  DeviceRouter(
      LayerDevice device,
      RouterConfig config,
      int hidden,
      int rank,
      ReplicatedPlacement placement,
      MoeWeights of) {
    this.device = device;
    this.config = config;
    this.hidden = hidden;
    this.rank = rank;
    // The host's router checks its matrices.
    Router checked = new Router(config, of.router(), of.bias(), hidden);
    weights = device.allocate(DeviceExperts.bf16(config.experts(), hidden));
    Bf16Weights.write(device, weights, checked.weights().values());
    Optional<Tensor> given = of.bias();
    bias = given.isEmpty() ? 0 : written(MemorySegment.ofArray(checked.bias()));
    bad = device.allocate(Long.BYTES);
    boolean once = placement.placement().experts() == placement.experts();
    MoeKernel.ReplicaTable table = MoeKernel.ReplicaTable.of(placement);
    // Experts that exist once can have other numbers too.
    boolean same = once && isAscending(table.replicas());
    firstReplicas = same ? 0 : written(MemorySegment.ofArray(table.first()));
    replicas = same ? 0 : written(MemorySegment.ofArray(table.replicas()));
  }

  private static boolean isAscending(int[] replicas) {
    for (int e = 0; e < replicas.length; e++) {
      if (replicas[e] != e) {
        return false;
      }
    }
    return true;
  }

  private long written(MemorySegment values) {
    long address = device.allocate(values.byteSize());
    device.write(address, values);
    return address;
  }

  /** Enqueues the choices of tokens; {@link #requireFinite} follows. */
  Choices choose(WorkQueue queue, DeviceScratch scratch, long x, int tokens) {
    int experts = config.experts();
    int topK = config.topK();
    long logits = scratch.take(DType.FP32.bytes((long) tokens * experts));
    long scores = scratch.take(DType.FP32.bytes((long) tokens * experts));
    long ids = scratch.take(DType.INT32.bytes((long) tokens * topK));
    long routingWeights = scratch.take(DType.FP32.bytes((long) tokens * topK));
    queue.zero(bad, Long.BYTES);
    if (tokens > 0) {
      queue.multiply(Product.byWeights(tokens, experts, hidden, x, weights, logits).inFp32(false));
    }
    queue.launch(
        MoeKernel.ROUTE,
        MoeKernel.ROUTE.blocksOfWarps(tokens),
        sharedBytes(MoeKernel.ROUTE, 2),
        logits,
        bias,
        tokens,
        experts,
        topK,
        config.groups(),
        config.topGroups(),
        flags(),
        scale(),
        scores,
        ids,
        routingWeights,
        bad);
    Tensor logical = tensor(ids, DType.INT32, tokens);
    Tensor factors = tensor(routingWeights, DType.FP32, tokens);
    if (replicas == 0) {
      return new Choices(logits, scores, ids, new Routing(logical, factors, null));
    }
    long physical = scratch.take(DType.INT32.bytes((long) tokens * topK));
    queue.launch(
        MoeKernel.REPLICAS,
        MoeKernel.REPLICAS.blocksOfWarps(experts),
        0,
        ids,
        (long) tokens * topK,
        experts,
        rank,
        firstReplicas,
        replicas,
        physical);
    return new Choices(
        logits, scores, ids, new Routing(tensor(physical, DType.INT32, tokens), factors, logical));
  }

  private Tensor tensor(long address, DType type, int tokens) {
    return Tensor.ofDevice(address, device.ordinal(), type, tokens, config.topK());
  }

  private int sharedBytes(MoeKernel kernel, int floats) {
    return kernel.warps() * floats * config.experts() * Float.BYTES;
  }

  private long flags() {
    return MoeKernel.flags(config.scores() == RouterConfig.Scores.SIGMOID, config.normalized());
  }

  private long scale() {
    return Float.floatToRawIntBits(config.scale());
  }

  /** Waits for the choices. Without an order of the scores, there is none. */
  void requireFinite(WorkQueue queue, Choices choices) {
    long word = queue.fetch(bad, Long.BYTES).get(ValueLayout.JAVA_LONG, 0);
    if (word != 0) {
      long first = ~word;
      MemorySegment logit = queue.fetch(choices.logits + first * Float.BYTES, Float.BYTES);
      throw new InvalidArgumentException(
          ErrorCode.MOE_SCORES,
          "logit of token " + first / config.experts() + " for expert " + first % config.experts(),
          String.valueOf(logit.get(ValueLayout.JAVA_FLOAT, 0)),
          "finite",
          "look for such values in the token and in the router");
    }
  }

  /**
   * Enqueues the gradients.
   *
   * @param gradOfWeights of the routing weights, FP32 [T, K]
   * @param gradOfX FP32 [T, H], to which that of the tokens is added
   * @param gradOfMatrix FP32 [E, H]
   */
  void backward(
      WorkQueue queue,
      DeviceScratch scratch,
      Choices choices,
      long x,
      int tokens,
      long gradOfWeights,
      long gradOfX,
      long gradOfMatrix) {
    int experts = config.experts();
    if (tokens == 0) {
      queue.zero(gradOfMatrix, DType.FP32.bytes((long) experts * hidden));
      return;
    }
    long grad = scratch.take(DeviceExperts.bf16(tokens, experts));
    queue.launch(
        MoeKernel.ROUTE_BACKWARD,
        MoeKernel.ROUTE_BACKWARD.blocksOfWarps(tokens),
        sharedBytes(MoeKernel.ROUTE_BACKWARD, 1),
        choices.scores,
        choices.ids,
        gradOfWeights,
        tokens,
        experts,
        config.topK(),
        flags(),
        scale(),
        grad);
    queue.multiply(Product.back(tokens, hidden, experts, grad, weights, gradOfX).inFp32(true));
    queue.multiply(Product.ofWeights(experts, hidden, tokens, grad, x, gradOfMatrix));
  }
}
