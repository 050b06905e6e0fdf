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
  /** SwiGLU of groups of rows whose numbers are on the GPU. */
  SWIGLU_GROUPS("moe_swiglu_groups", 6, 256),
  SWIGLU_BACKWARD("moe_swiglu_backward", 6, 256),
  /** Products of few rows of each expert, whose numbers are on the GPU, by its weights. */
  FEW_ROWS("moe_few_rows", 8, 128),
  /** The same by weights of FP8. */
  FEW_ROWS_FP8("moe_few_rows_fp8", 9, 128),
  /** From BF16 to FP8 with scales. */
  QUANTISE("moe_quantise", 4, 256),
  /** From FP8 with scales to BF16, of groups of rows whose numbers are on the GPU. */
  DEQUANTISE("moe_dequantise", 7, 256),
  /** Scales of rows of FP8 in the order of products of FP8. */
  SCALES_OF_GROUPS("moe_scales_of_groups", 5, 256),
  /** From a matrix of FP8 with factors of blocks to BF16. */
  DEQUANTISE_WEIGHTS("moe_dequantise_weights", 5, 256),
  TO_FP32("moe_to_fp32", 3, 256),
  TO_BF16("moe_to_bf16", 3, 256),
  /** Adds matrices of BF16. */
  ADD("moe_add", 4, 256);

  /** Elements that a thread takes at a time: hidden sizes and intermediate ones are multiples. */
  public static final int VECTOR = 8;

  /** Columns of a block of {@link #FEW_ROWS} and {@link #FEW_ROWS_FP8}. */
  private static final int SLICE = 64;

  /** Shared memory of a block of {@link #FEW_ROWS}: what it multiplies, and what is under way. */
  public static final int FEW_ROWS_BYTES = 3 * (64 + SLICE) * 128;

  /** Shared memory of a block of {@link #FEW_ROWS_FP8}, likewise. */
  public static final int FEW_ROWS_FP8_BYTES = 4 * (64 * 128 + SLICE * 64);

  /** Blocks that share a group of {@link #SWIGLU_GROUPS} or {@link #SCALES_OF_GROUPS}. */
  private static final int SHARES = 16;

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

  /** Blocks of {@link #FEW_ROWS} or {@link #FEW_ROWS_FP8} for results of so many columns. */
  public static int blocksOfFewRows(long experts, int columns) {
    return blocks(experts * ((columns + SLICE - 1) / SLICE), 1);
  }

  /** Blocks of {@link #SWIGLU_GROUPS} or {@link #SCALES_OF_GROUPS}. */
  public static int blocksOfGroups(long groups) {
    return blocks(groups * SHARES, 1);
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
