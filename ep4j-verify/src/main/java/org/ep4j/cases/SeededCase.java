package org.ep4j.cases;

import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import org.ep4j.CombineOrder;
import org.ep4j.config.Layout;
import org.ep4j.io.SafetensorsWriter;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.CombineOracle;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Inputs.Part;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.ep4j.verify.Rows;
import org.ep4j.verify.WorldRouting;

/**
 * A case with sums in the order of experts that is drawn from a seed, with results of the oracle.
 * Any number of ranks gets the same tokens, in blocks, so the results of a seed are the same bits
 * for any number of ranks, and in BF16 also for both kinds of operations.
 */
public final class SeededCase {
  /** The most ranks: each has an expert. */
  public static final int MAX_RANKS = 16;

  private static final int TOKENS = 96;
  private static final int EXPERTS = MAX_RANKS;
  private static final int TOP_K = 6;
  private static final int HIDDEN = 256;
  private static final int MASKED_OF_256 = 24;

  private final long seed;
  private final boolean lowLatency;
  private final DType dtype;
  private final int ranks;
  private final Arena arena;
  private final ExpertPlacement placement;

  /** Of all tokens [T, K]. */
  private final Tensor ids;

  private final Tensor weights;

  private final Tensor x;

  private SeededCase(long seed, boolean lowLatency, DType dtype, int ranks, Arena arena) {
    this.seed = seed;
    this.lowLatency = lowLatency;
    this.dtype = dtype;
    this.ranks = ranks;
    this.arena = arena;
    placement = ExpertPlacement.blocks(EXPERTS, ranks);
    Routing drawn =
        new RoutingGenerator(RoutingKind.UNIFORM, seed, EXPERTS, TOP_K)
            .routing(0, TOKENS, MASKED_OF_256, arena);
    ids = drawn.topkIdx();
    weights = weights(Objects.requireNonNull(drawn.topkWeights(), "drawn with weights"));
    x = new Inputs(seed).tensor(Part.PAYLOAD, dtype, 0, TOKENS, HIDDEN, arena);
  }

  /** Half of the weights are 1: rows of experts cancel then. */
  private static Tensor weights(Tensor drawn) {
    float[] weights = drawn.toFloatArray();
    for (int i = 0; i < weights.length; i++) {
      weights[i] = weights[i] > 0.5f ? 1 : weights[i];
    }
    return Tensor.of(weights, TOKENS, TOP_K);
  }

  /**
   * Writes the files of a case.
   *
   * @param directory existing directory
   * @param lowLatency kind {@code ll}; otherwise {@code ht}
   * @param dtype of the rows; low latency: BF16
   * @param ranks number of files, at most {@link #MAX_RANKS}
   */
  public static void write(Path directory, long seed, boolean lowLatency, DType dtype, int ranks) {
    try (Arena arena = Arena.ofConfined()) {
      new SeededCase(seed, lowLatency, dtype, ranks, arena).write(directory);
    }
  }

  private void write(Path directory) {
    WorldRouting world =
        WorldRouting.of(placement, IntStream.range(0, ranks).mapToObj(r -> routing(r)).toList());
    List<Tensor> expertRows = new ArrayList<>();
    for (int rank = 0; rank < ranks; rank++) {
      expertRows.add(expertRows(rank));
    }
    CombineOracle oracle = new CombineOracle(world, Layout.EXPERT_MAJOR, 1);
    CombineOracle.Terms terms =
        new CombineOracle.Terms(
            dtype, HIDDEN, Rows.of(expertRows), false, true, CombineOrder.EXPERT, null, null, null);
    for (int rank = 0; rank < ranks; rank++) {
      Map<String, Tensor> tensors = new LinkedHashMap<>();
      tensors.put("x", x.rows(first(rank), first(rank + 1)));
      tensors.put("topk_idx", ids.rows(first(rank), first(rank + 1)));
      tensors.put("topk_weights", weights.rows(first(rank), first(rank + 1)));
      if (lowLatency) {
        putSlots(tensors, rank, expertRows.get(rank));
      } else {
        tensors.put("expert_out", expertRows.get(rank));
        tensors.put("recv_x", receivedRows(rank));
        tensors.put("num_recv_tokens_per_expert", counts(rank));
      }
      tensors.put("combined_x", oracle.sums(rank, terms, arena));
      SafetensorsWriter.write(
          directory.resolve("rank" + rank + ".safetensors"), metadata(), tensors);
    }
  }

  private Map<String, String> metadata() {
    Map<String, String> metadata = new LinkedHashMap<>();
    metadata.put("kind", lowLatency ? "ll" : "ht");
    metadata.put("experts", String.valueOf(EXPERTS));
    metadata.put("order", "expert");
    metadata.put("seed", String.valueOf(seed));
    if (lowLatency) {
      metadata.put("max_tokens", String.valueOf(maxTokens()));
    }
    return metadata;
  }

  /** The first token of a rank. */
  private int first(int rank) {
    return rank * TOKENS / ranks;
  }

  private int rankOf(int token) {
    int rank = 0;
    while (first(rank + 1) <= token) {
      rank++;
    }
    return rank;
  }

  private int maxTokens() {
    return Math.ceilDiv(TOKENS, ranks);
  }

  private Routing routing(int rank) {
    return Routing.of(
        ids.rows(first(rank), first(rank + 1)), weights.rows(first(rank), first(rank + 1)));
  }

  /** The tokens that choose an expert, ascending: those of a rank follow those of lower ranks. */
  private int[] tokensOf(int expert) {
    return IntStream.range(0, TOKENS)
        .filter(
            t ->
                IntStream.range(0, TOP_K)
                    .anyMatch(k -> ids.getLong((long) t * TOP_K + k) == expert))
        .toArray();
  }

  /** The experts of a rank. */
  private int[] experts(int rank) {
    return IntStream.range(0, placement.localExperts(rank))
        .map(local -> placement.expertAt(rank, local))
        .toArray();
  }

  private Tensor counts(int rank) {
    int[] counts = Arrays.stream(experts(rank)).map(e -> tokensOf(e).length).toArray();
    return Tensor.of(counts, counts.length);
  }

  private Tensor receivedRows(int rank) {
    return rows(rank, (expert, row) -> row);
  }

  /**
   * Rows of two experts may cancel, those of a third are lost beside them, so another order shows
   * in the bits of BF16, too.
   */
  private Tensor expertRows(int rank) {
    return rows(
        rank,
        (expert, row) -> {
          float factor =
              switch (expert % 3) {
                case 0 -> 1;
                case 1 -> -1;
                default -> 0x1p-20f * (1 + 0.37f * expert);
              };
          float[] out = new float[HIDDEN];
          for (int i = 0; i < HIDDEN; i++) {
            out[i] = row[i] * factor;
          }
          return out;
        });
  }

  /** What an expert makes of a row. */
  @FunctionalInterface
  private interface Expert {
    float[] of(int expert, float[] row);
  }

  /** Rows grouped by the experts of a rank, in ascending order of tokens. */
  private Tensor rows(int rank, Expert made) {
    int[] experts = experts(rank);
    int count = Arrays.stream(experts).map(e -> tokensOf(e).length).sum();
    float[] values = new float[count * HIDDEN];
    int at = 0;
    for (int expert : experts) {
      for (int t : tokensOf(expert)) {
        float[] row = made.of(expert, x.rows(t, t + 1).toFloatArray());
        System.arraycopy(row, 0, values, at * HIDDEN, HIDDEN);
        at++;
      }
    }
    return Tensor.fromFloats(values, dtype, count, HIDDEN);
  }

  /** Adds the tensors of low latency: rows of an expert from its first slot, by token. */
  private void putSlots(Map<String, Tensor> tensors, int rank, Tensor expertRows) {
    int[] experts = experts(rank);
    int perExpert = ranks * maxTokens();
    long rowBytes = dtype.bytes(HIDDEN);
    Tensor received = receivedRows(rank);
    Tensor x = Tensor.allocate(arena, dtype, experts.length, perExpert, HIDDEN);
    Tensor y = Tensor.allocate(arena, dtype, experts.length, perExpert, HIDDEN);
    long[] ranges = new long[experts.length * ranks];
    int[] sources = new int[experts.length * perExpert];
    Arrays.fill(sources, -1);
    long row = 0;
    for (int local = 0; local < experts.length; local++) {
      int[] tokens = tokensOf(experts[local]);
      for (int n = 0; n < tokens.length; n++) {
        int source = rankOf(tokens[n]);
        int slot = local * perExpert + n;
        long range = ranges[local * ranks + source];
        ranges[local * ranks + source] = range == 0 ? (long) n << 32 | 1 : range + 1;
        sources[slot] = tokens[n] - first(source);
        for (Tensor[] copy : new Tensor[][] {{received, x}, {expertRows, y}}) {
          copy[1]
              .segment()
              .asSlice(slot * rowBytes, rowBytes)
              .copyFrom(copy[0].segment().asSlice(row * rowBytes, rowBytes));
        }
        row++;
      }
    }
    tensors.put("expert_out", y);
    tensors.put("recv_x", x);
    tensors.put("recv_count", counts(rank));
    tensors.put("layout_range", Tensor.of(ranges, experts.length, ranks));
    tensors.put("src_info", Tensor.of(sources, experts.length, perExpert));
  }
}
