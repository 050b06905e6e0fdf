package org.ep4j.verify;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.ep4j.Combine;
import org.ep4j.CombineOrder;
import org.ep4j.DispatchOptions;
import org.ep4j.config.Layout;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Expected results of a high-throughput combine. Every check throws {@link VerificationException}
 * at the first difference. Not thread-safe.
 */
public final class CombineOracle {
  private static final int NOWHERE = -1;

  private final WorldRouting world;
  private final ReceivePlan[] plans;
  private final int ranksPerNode;

  /**
   * An oracle for the combines after one dispatch, in one node.
   *
   * @param layout row order of the dispatch
   * @param expertAlignment alignment of the dispatch
   */
  public CombineOracle(WorldRouting world, Layout layout, int expertAlignment) {
    this(world, layout, expertAlignment, 0);
  }

  /**
   * The same between nodes: with {@code partialRounding} each node's sum is rounded before the
   * nodes' sums are added in ascending order; without it nodes make no difference.
   *
   * @param ranksPerNode as in {@link org.ep4j.config.BufferConfig#ranksPerNode()}; 0 = one node
   */
  public CombineOracle(WorldRouting world, Layout layout, int expertAlignment, int ranksPerNode) {
    this(
        world,
        layout,
        DispatchOptions.builder().expertAlignment(expertAlignment).build(),
        ranksPerNode);
  }

  /**
   * The same with the options of the dispatch: sums leave out the rows that overflow its sizing.
   *
   * @param options alignment, and the sizing of all ranks
   */
  public CombineOracle(
      WorldRouting world, Layout layout, DispatchOptions options, int ranksPerNode) {
    this.world = world;
    this.ranksPerNode = ranksPerNode == 0 ? world.ranks() : ranksPerNode;
    this.plans = new ReceivePlan[world.ranks()];
    for (int r = 0; r < plans.length; r++) {
      plans[r] = ReceivePlan.of(world, r, layout, options.expertAlignment());
      if (options.sizing().isStatic()) {
        plans[r].cut(options.sizing().maxRows());
      }
    }
  }

  /**
   * Inputs of the sum.
   *
   * @param dtype of rows, biases and result
   * @param hidden elements of a row
   * @param y rows by (rank that holds them, row of its dispatch)
   * @param partialRounding whether partial sums are rounded: EXPERT_MAJOR those of ranks, between
   *     nodes those of nodes
   * @param applyWeights whether rows are multiplied by the weights of the routing: only
   *     EXPERT_MAJOR, and if the routing has weights
   * @param order of the sums; by experts only EXPERT_MAJOR
   * @param bias0 by (rank, token), or null
   * @param bias1 by (rank, token), or null
   * @param weights by (rank that holds them, row of its dispatch): FP32 [K] (FLAT) or [1]
   *     (EXPERT_MAJOR); or null
   */
  public record Terms(
      DType dtype,
      int hidden,
      Rows y,
      boolean partialRounding,
      boolean applyWeights,
      CombineOrder order,
      @Nullable Rows bias0,
      @Nullable Rows bias1,
      @Nullable Rows weights) {
    /** Sums in the order of ranks. */
    public Terms(
        DType dtype,
        int hidden,
        Rows y,
        boolean partialRounding,
        boolean applyWeights,
        @Nullable Rows bias0,
        @Nullable Rows bias1,
        @Nullable Rows weights) {
      this(
          dtype,
          hidden,
          y,
          partialRounding,
          applyWeights,
          CombineOrder.RANK,
          bias0,
          bias1,
          weights);
    }

    /** Rows only, with the default of {@code partialRounding}. */
    public static Terms of(DType dtype, int hidden, Rows y) {
      return new Terms(dtype, hidden, y, true, false, null, null, null);
    }
  }

  /** Checks the sums of {@code rank}'s own tokens. */
  public void checkCombine(int rank, Combine actual, Terms terms) {
    check(rank, actual.x(), Outputs.weights(actual), terms);
  }

  /** Checks the tensors of a combine. */
  void check(int rank, @Nullable Tensor actualX, @Nullable Tensor actualWeights, Terms terms) {
    try (Check check = new Check("combine", rank)) {
      check(check, rank, actualX, actualWeights, terms);
    }
  }

  private void check(
      Check check,
      int rank,
      @Nullable Tensor actualX,
      @Nullable Tensor actualWeights,
      Terms terms) {
    int tokens = world.tokens(rank);
    Tensor x = check.tensor("x", actualX, terms.dtype(), tokens, terms.hidden());
    Tensor weights = actualWeights;
    if (terms.weights() == null) {
      check.requireNull("topkWeights", weights);
    } else {
      weights = check.tensor("topkWeights", weights, DType.FP32, tokens, world.topK());
    }
    float[] sumOfWeights = new float[world.topK()];
    MemorySegment expected =
        MemorySegment.ofArray(new byte[(int) terms.dtype().bytes(terms.hidden())]);
    TokenSums sums = new TokenSums(rank, terms);
    for (int t = 0; t < tokens; t++) {
      sums.of(t, expected, sumOfWeights);
      check.bytes(
          "x", expected, x.segment(), t * expected.byteSize(), new Check.Location(t, rank, t, -1));
      if (terms.weights() != null && weights != null) {
        checkWeights(check, rank, t, sumOfWeights, weights);
      }
    }
  }

  /** The sums of {@code rank}'s own tokens [T, H]. */
  public Tensor sums(int rank, Terms terms, Arena arena) {
    int tokens = world.tokens(rank);
    Tensor sums = Tensor.allocate(arena, terms.dtype(), tokens, terms.hidden());
    long rowBytes = terms.dtype().bytes(terms.hidden());
    TokenSums of = new TokenSums(rank, terms);
    for (int t = 0; t < tokens; t++) {
      of.of(t, sums.segment().asSlice(t * rowBytes, rowBytes), new float[world.topK()]);
    }
    return sums;
  }

  /** The sums of the tokens of one rank, one token after the other. */
  private final class TokenSums {
    private final int rank;
    private final Terms terms;
    private final boolean flat;
    private final int[][] rows;
    private final float[] sum;
    private final float[] partial;
    private final float[] node;
    private final float[] nodeWeights = new float[world.topK()];

    TokenSums(int rank, Terms terms) {
      this.rank = rank;
      this.terms = terms;
      flat = plans[rank].layout == Layout.FLAT;
      rows = rowsOfTokens(rank, flat);
      sum = new float[terms.hidden()];
      partial = new float[terms.hidden()];
      node = new float[terms.hidden()];
    }

    /** Writes the sum of token {@code t}, and the sums of its weights. */
    void of(int t, MemorySegment result, float[] sumOfWeights) {
      Arrays.fill(sum, 0);
      addBias(sum, terms.bias0(), terms.dtype(), rank, t);
      addBias(sum, terms.bias1(), terms.dtype(), rank, t);
      Arrays.fill(sumOfWeights, 0);
      boolean byExperts = terms.order() == CombineOrder.EXPERT;
      boolean rounded = !byExperts && terms.partialRounding() && ranksPerNode < world.ranks();
      float[] to = rounded ? node : sum;
      float[] weightsTo = rounded ? nodeWeights : sumOfWeights;
      for (int d = 0; d < world.ranks() && !byExperts; d++) {
        if (flat) {
          addToken(to, weightsTo, d, rows[d][t], terms);
        } else {
          addExperts(to, partial, weightsTo, rank, t, d, rows[d], terms);
        }
        if (rounded && ((d + 1) % ranksPerNode == 0 || d + 1 == world.ranks())) {
          Floats.round(node, terms.dtype());
          Floats.add(sum, node);
          Floats.add(sumOfWeights, nodeWeights);
          Arrays.fill(node, 0);
          Arrays.fill(nodeWeights, 0);
        }
      }
      if (byExperts) {
        addChain(sum, sumOfWeights, rank, t, rows, terms);
      }
      Floats.store(sum, result, terms.dtype());
    }
  }

  private static void addBias(float[] sum, @Nullable Rows bias, DType dtype, int rank, int token) {
    if (bias != null) {
      Floats.add(sum, bias.row(rank, token), dtype);
    }
  }

  private void addToken(float[] sum, float[] sumOfWeights, int holder, int row, Terms terms) {
    if (row == NOWHERE) {
      return;
    }
    Floats.add(sum, terms.y().row(holder, row), terms.dtype());
    if (terms.weights() != null) {
      MemorySegment weights = terms.weights().row(holder, row);
      for (int k = 0; k < sumOfWeights.length; k++) {
        sumOfWeights[k] += weights.get(ValueLayout.JAVA_FLOAT_UNALIGNED, 4L * k);
      }
    }
  }

  /** Adds the partial sum of one rank: its rows of the token in ascending expert order. */
  private void addExperts(
      float[] sum,
      float[] partial,
      float[] sumOfWeights,
      int rank,
      int token,
      int holder,
      int[] rows,
      Terms terms) {
    Arrays.fill(partial, 0);
    int last = -1;
    boolean any = false;
    while (true) {
      // The next greater expert of this rank; top-k is small, so no sorting.
      int next = Integer.MAX_VALUE;
      int choice = -1;
      for (int k = 0; k < world.topK(); k++) {
        int expert = world.expert(rank, token, k);
        if (expert > last && expert < next && world.placement().rankOf(expert) == holder) {
          next = expert;
          choice = k;
        }
      }
      if (choice < 0) {
        break;
      }
      last = next;
      int row = rows[token * world.topK() + choice];
      if (row == NOWHERE) {
        continue;
      }
      any = true;
      MemorySegment values = terms.y().row(holder, row);
      if (terms.applyWeights()) {
        float weight = world.weight(rank, token, choice);
        Floats.addProducts(partial, values, weight, terms.dtype());
      } else {
        Floats.add(partial, values, terms.dtype());
      }
      if (terms.weights() != null) {
        MemorySegment weight = terms.weights().row(holder, row);
        sumOfWeights[choice] += weight.get(ValueLayout.JAVA_FLOAT_UNALIGNED, 0);
      }
    }
    if (any) {
      if (terms.partialRounding()) {
        Floats.round(partial, terms.dtype());
      }
      Floats.add(sum, partial);
    }
  }

  /** Adds all rows of a token in ascending expert order, whatever rank holds them. */
  private void addChain(
      float[] sum, float[] sumOfWeights, int rank, int token, int[][] rows, Terms terms) {
    for (int choice : world.choicesByExpert(rank, token)) {
      int holder = world.placement().rankOf(world.expert(rank, token, choice));
      int row = rows[holder][token * world.topK() + choice];
      if (row == NOWHERE) {
        continue;
      }
      float weight = terms.applyWeights() ? world.weight(rank, token, choice) : 1;
      Floats.addWeighted(sum, terms.y().row(holder, row), weight, terms.dtype());
      if (terms.weights() != null) {
        sumOfWeights[choice] +=
            terms.weights().row(holder, row).get(ValueLayout.JAVA_FLOAT_UNALIGNED, 0);
      }
    }
  }

  private void checkWeights(Check check, int rank, int token, float[] expected, Tensor actual) {
    for (int k = 0; k < expected.length; k++) {
      HighThroughputOracle.checkFloat(
          check,
          "topkWeights",
          new Check.Location(token, rank, token, world.expert(rank, token, k)),
          expected[k],
          actual.getFloat((long) token * expected.length + k));
    }
  }

  /**
   * Rows of the tokens of {@code rank}: by holder, then by token (FLAT) or by token and choice
   * (EXPERT_MAJOR).
   */
  private int[][] rowsOfTokens(int rank, boolean flat) {
    int width = flat ? 1 : world.topK();
    int[][] rows = new int[plans.length][world.tokens(rank) * width];
    for (int d = 0; d < plans.length; d++) {
      ReceivePlan plan = plans[d];
      Arrays.fill(rows[d], NOWHERE);
      for (int i = 0; i < plan.rows; i++) {
        if (plan.sourceRank[i] == rank) {
          rows[d][plan.sourceToken[i] * width + (flat ? 0 : plan.choice[i])] = i;
        }
      }
    }
    return rows;
  }
}
