package org.ep4j.moe.gpu;

import org.ep4j.routing.ReplicatedPlacement;

/**
 * Kernels of a layer; their files describe the parameters, each of eight bytes. Blocks take work in
 * strides of the grid.
 */
public enum MoeKernel {
  /** From logits to scores, ids and weights. */
  ROUTE("moe_route", 13, 128),
  /** From the gradient of weights to that of logits. */
  ROUTE_BACKWARD("moe_route_backward", 9, 128),
  /** From logical to physical experts. */
  REPLICAS("moe_replicas", 7, 256),
  SWIGLU("moe_swiglu", 4, 256),
  SWIGLU_BACKWARD("moe_swiglu_backward", 6, 256),
  TO_FP32("moe_to_fp32", 3, 256),
  TO_BF16("moe_to_bf16", 3, 256),
  /** Adds matrices of BF16. */
  ADD("moe_add", 4, 256);

  /** Elements that a thread takes at a time: hidden sizes and intermediate ones are multiples. */
  public static final int VECTOR = 8;

  /** Threads of a warp. */
  private static final int LANES = 32;

  /** More blocks than a GPU runs at once: each of them takes several pieces of work. */
  private static final long MAX_BLOCKS = 1 << 12;

  private final String symbol;
  private final int parameters;
  private final int threads;

  MoeKernel(String symbol, int parameters, int threads) {
    this.symbol = symbol;
    this.parameters = parameters;
    this.threads = threads;
  }

  /** Name in the source. */
  public String symbol() {
    return symbol;
  }

  /** Number of parameters. */
  public int parameters() {
    return parameters;
  }

  /** Threads of a block. */
  public int threads() {
    return threads;
  }

  /** Warps of a block. */
  public int warps() {
    return threads / LANES;
  }

  /** Blocks for so many pieces of work, each for a thread; at least one. */
  public int blocksOfThreads(long pieces) {
    return blocks(pieces, threads);
  }

  /** Blocks for so many pieces of work, each for a warp; at least one. */
  public int blocksOfWarps(long pieces) {
    return blocks(pieces, warps());
  }

  private static int blocks(long pieces, int each) {
    return (int) Math.clamp((pieces + each - 1) / each, 1, MAX_BLOCKS);
  }

  /**
   * Word of the router's kernels: how scores become weights.
   *
   * @param sigmoid whether scores are sigmoids, not a softmax
   * @param normalized whether weights are divided by their sum
   */
  public static long flags(boolean sigmoid, boolean normalized) {
    return (sigmoid ? 1 : 0) | (normalized ? 2 : 0);
  }

  /**
   * Replicas as {@link #REPLICAS} reads them.
   *
   * @param first index of the first replica of each logical expert, and the number of all
   * @param replicas physical experts
   */
  @SuppressWarnings("ArrayRecordComponent") // not compared
  public record ReplicaTable(int[] first, int[] replicas) {
    public static ReplicaTable of(ReplicatedPlacement placement) {
      var first = new int[placement.experts() + 1];
      var replicas = new int[placement.placement().experts()];
      int at = 0;
      for (int e = 0; e < placement.experts(); e++) {
        for (int n = 0; n < placement.replicas(e); n++) {
          replicas[at++] = placement.replica(e, n);
        }
        first[e + 1] = at;
      }
      return new ReplicaTable(first, replicas);
    }
  }
}
