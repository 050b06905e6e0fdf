package org.ep4j.verify;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.config.Layout;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.execution.Event;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Expected outputs of a dispatch, computed independently of the oracle: every (token, expert) pair
 * of the world becomes an object, and the rows of a rank are those objects, sorted.
 */
final class NaiveWorld {
  private final WorldRouting world;

  NaiveWorld(WorldRouting world) {
    this.world = world;
  }

  record Pair(int rank, int token, int choice, int expert) {}

  List<Pair> pairsOf(int destination) {
    List<Pair> pairs = new ArrayList<>();
    for (int s = 0; s < world.ranks(); s++) {
      for (int t = 0; t < world.tokens(s); t++) {
        for (int k = 0; k < world.topK(); k++) {
          if (world.destination(s, t, k) == destination) {
            pairs.add(new Pair(s, t, k, world.expert(s, t, k)));
          }
        }
      }
    }
    return pairs;
  }

  /** Rows in order; null is padding. */
  List<@Nullable Pair> rowsOf(int rank, Layout layout, int alignment) {
    List<Pair> pairs = pairsOf(rank);
    List<@Nullable Pair> rows = new ArrayList<>();
    if (layout == Layout.FLAT) {
      pairs.sort(Comparator.comparingInt(Pair::rank).thenComparingInt(Pair::token));
      for (Pair pair : pairs) {
        Pair last = rows.isEmpty() ? null : rows.getLast();
        if (last == null || last.rank() != pair.rank() || last.token() != pair.token()) {
          rows.add(pair);
        }
      }
      return rows;
    }
    pairs.sort(
        Comparator.comparingInt(Pair::expert)
            .thenComparingInt(Pair::rank)
            .thenComparingInt(Pair::token));
    int expert = -1;
    for (Pair pair : pairs) {
      if (pair.expert() != expert) {
        pad(rows, alignment);
        expert = pair.expert();
      }
      rows.add(pair);
    }
    pad(rows, alignment);
    return rows;
  }

  private static void pad(List<@Nullable Pair> rows, int alignment) {
    while (rows.size() % alignment != 0) {
      rows.add(null);
    }
  }

  /** Outputs of a correct engine on {@code rank}. */
  Delivered deliver(
      int rank,
      Layout layout,
      HighThroughputOracle.Payload payload,
      DispatchOptions options,
      Arena arena) {
    List<@Nullable Pair> rows = rowsOf(rank, layout, options.expertAlignment());
    boolean flat = layout == Layout.FLAT;
    int n = options.sizing().isStatic() ? (int) options.sizing().maxRows() : rows.size();
    int received = 0;
    int local = world.placement().localExperts(rank);
    Delivered out = flat ? new DeliveredRows() : new DeliveredGroups();
    out.sourceTokens = ints(arena, n);
    out.sourceRanks = ints(arena, n);
    out.x =
        Tensor.of(
            arena.allocate(n * payload.dtype().bytes(payload.hidden()) + 1),
            payload.dtype(),
            n,
            payload.hidden());
    if (payload.scales() != null) {
      var scales = payload.scales();
      out.scales =
          Tensor.of(
              arena.allocate(n * scales.dtype().bytes(scales.columns()) + 1),
              scales.dtype(),
              n,
              scales.columns());
    }
    if (flat) {
      out.topkIdx = Tensor.of(new long[n * world.topK()], n, world.topK());
      out.topkIdx.segment().fill((byte) -1);
    }
    if (world.weighted()) {
      out.topkWeights =
          flat
              ? Tensor.of(new float[n * world.topK()], n, world.topK())
              : Tensor.of(new float[n], n);
    }
    int[] perExpert = new int[local];
    for (Pair pair : pairsOf(rank)) {
      perExpert[world.placement().localOf(pair.expert())]++;
    }
    long[] bySource = new long[world.ranks() + 1];
    for (int i = 0; i < rows.size(); i++) {
      Pair pair = rows.get(i);
      if (pair == null) {
        continue;
      }
      received++;
      for (int s = pair.rank() + 1; s < bySource.length; s++) {
        bySource[s]++;
      }
      if (i >= n) {
        continue; // the row does not fit
      }
      set(out.sourceTokens, i, pair.token());
      set(out.sourceRanks, i, pair.rank());
      copy(payload.x().row(pair.rank(), pair.token()), out.x, i);
      if (payload.scales() != null && out.scales != null) {
        copy(payload.scales().rows().row(pair.rank(), pair.token()), out.scales, i);
      }
      fillRouting(out, rank, flat, i, pair);
    }
    int[] aligned = new int[local];
    long[] offsets = new long[local + 1];
    for (int l = 0; l < local; l++) {
      int a = options.expertAlignment();
      aligned[l] = -Math.floorDiv(-perExpert[l], a) * a;
      offsets[l + 1] = offsets[l] + aligned[l];
    }
    out.rows = n;
    out.receivedRows = received;
    out.counts = Tensor.of(perExpert, local);
    out.alignedCounts = Tensor.of(aligned, local);
    out.expertOffsets = flat ? null : Tensor.of(offsets, offsets.length);
    out.rankOffsets = flat ? Tensor.of(bySource, bySource.length) : null;
    return out;
  }

  private void fillRouting(Delivered out, int rank, boolean flat, int row, Pair pair) {
    if (!flat) {
      if (out.topkWeights != null) {
        float weight = world.weight(pair.rank(), pair.token(), pair.choice());
        set(out.topkWeights, row, Float.floatToRawIntBits(weight));
      }
      return;
    }
    for (int k = 0; k < world.topK(); k++) {
      if (world.destination(pair.rank(), pair.token(), k) == rank) {
        int expert = world.expert(pair.rank(), pair.token(), k);
        long at = (long) row * world.topK() + k;
        if (out.topkIdx != null) {
          out.topkIdx
              .segment()
              .set(ValueLayout.JAVA_LONG_UNALIGNED, 8 * at, world.placement().localOf(expert));
        }
        if (out.topkWeights != null) {
          float weight = world.weight(pair.rank(), pair.token(), k);
          set(out.topkWeights, at, Float.floatToRawIntBits(weight));
        }
      }
    }
  }

  private static Tensor ints(Arena arena, int n) {
    MemorySegment memory = arena.allocate(4L * n + 1).fill((byte) -1);
    return Tensor.of(memory, DType.INT32, n);
  }

  private static void set(Tensor tensor, long index, int bits) {
    tensor.segment().set(ValueLayout.JAVA_INT_UNALIGNED, 4 * index, bits);
  }

  private static void copy(MemorySegment from, Tensor to, int row) {
    MemorySegment.copy(from, 0, to.segment(), row * from.byteSize(), from.byteSize());
  }

  /** A dispatch that holds given values. */
  abstract static class Delivered implements Dispatch {
    long rows;
    long receivedRows;
    Tensor x = Tensor.of(new int[0], 0);
    @Nullable Tensor scales;
    @Nullable Tensor topkIdx;
    @Nullable Tensor topkWeights;
    Tensor alignedCounts = x;
    Tensor counts = x;
    @Nullable Tensor expertOffsets;
    @Nullable Tensor rankOffsets;
    Tensor sourceTokens = x;
    Tensor sourceRanks = x;
    @Nullable ReceiveOverflowException overflow;

    @Override
    public long rows() {
      return rows;
    }

    @Override
    public long receivedRows() {
      return receivedRows;
    }

    @Override
    public Tensor x() {
      return x;
    }

    @Override
    public boolean hasScales() {
      return scales != null;
    }

    @Override
    public Tensor scales() {
      return Objects.requireNonNull(scales);
    }

    @Override
    public boolean hasGlobalScales() {
      return false;
    }

    @Override
    public Tensor globalScales() {
      throw new IllegalStateException("the payload has no factors");
    }

    @Override
    public boolean hasWeights() {
      return topkWeights != null;
    }

    @Override
    public Tensor alignedCounts() {
      return alignedCounts;
    }

    @Override
    public Tensor counts() {
      return counts;
    }

    @Override
    public Tensor sourceTokens() {
      return sourceTokens;
    }

    @Override
    public Tensor sourceRanks() {
      return sourceRanks;
    }

    @Override
    public Tensor combineInput(DType dtype) {
      throw new UnsupportedOperationException("values only");
    }

    @Override
    public Optional<ReceiveOverflowException> overflow() {
      return Optional.ofNullable(overflow);
    }

    @Override
    public DispatchHandle handle() {
      throw new UnsupportedOperationException("values only");
    }

    @Override
    public Event event() {
      return Event.completed();
    }

    /** All existing tensors, by name. */
    Map<String, Tensor> tensors() {
      Map<String, Tensor> all = new LinkedHashMap<>();
      put(all, "x", x);
      put(all, "scales", scales);
      put(all, "topkIdx", topkIdx);
      put(all, this instanceof GroupedDispatch ? "rowWeights" : "topkWeights", topkWeights);
      put(all, "alignedCounts", alignedCounts);
      put(all, "counts", counts);
      put(all, "expertOffsets", expertOffsets);
      put(all, "rankOffsets", rankOffsets);
      put(all, "sourceTokens", sourceTokens);
      put(all, "sourceRanks", sourceRanks);
      return all;
    }

    private static void put(Map<String, Tensor> all, String name, @Nullable Tensor t) {
      if (t != null) {
        all.put(name, t);
      }
    }
  }

  /** One row per token. */
  static final class DeliveredRows extends Delivered implements FlatDispatch {
    @Override
    public boolean hasChoices() {
      return topkIdx != null;
    }

    @Override
    public Tensor topkIdx() {
      return Objects.requireNonNull(topkIdx);
    }

    @Override
    public Tensor topkWeights() {
      return Objects.requireNonNull(topkWeights);
    }

    @Override
    public Tensor rankOffsets() {
      return Objects.requireNonNull(rankOffsets);
    }
  }

  /** One row per token and expert. */
  static final class DeliveredGroups extends Delivered implements GroupedDispatch {
    @Override
    public Tensor expertOffsets() {
      return Objects.requireNonNull(expertOffsets);
    }

    @Override
    public Tensor rowWeights() {
      return Objects.requireNonNull(topkWeights);
    }
  }
}
