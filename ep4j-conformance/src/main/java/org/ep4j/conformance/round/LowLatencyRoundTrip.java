package org.ep4j.conformance.round;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.SplittableRandom;
import org.ep4j.CombineOrder;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.RankMajorDispatch;
import org.ep4j.config.Layout;
import org.ep4j.execution.Execution;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.HostCopy;
import org.ep4j.verify.LowLatencyOracle;
import org.ep4j.verify.Poison;
import org.ep4j.verify.RankMajorOracle;
import org.ep4j.verify.WorldRouting;
import org.jspecify.annotations.Nullable;

/**
 * A low-latency dispatch and its combine, in four steps so that two pairs can overlap. Checks every
 * result, then poisons it.
 */
public final class LowLatencyRoundTrip {
  private static final int UE8M0_MULTIPLE = 512;

  /** Rows are multiples of this. */
  private static final int ROW_BLOCK = 128;

  /** Waits of a rank at first, in ns: more than any operation adds, so that an overwrite shows. */
  private static final long FIRST_WAIT = 1L << 40;

  private static final float[] GLOBAL_SCALES = {1, 448f * 6 / 1.9f, 0.37f, 1e6f};

  private final RankContext in;
  private final Arena arena;
  private final boolean hooked;

  /** Elements of a row of this dispatch. */
  private final int hidden;

  private final Batch batch;
  private final Routing routing;
  private final LowLatencyOracle oracle;

  /** Replaces the oracle with {@link Layout#RANK_MAJOR}. */
  private final @Nullable RankMajorOracle byRanks;

  private final LowLatencyDispatchOptions dispatching;
  private final EdgeCaseRows x;
  private final EdgeCaseRows y;
  private final @Nullable Tensor statistics;
  private final int[] before;
  private final Tensor waits;

  /** What {@link #waits} had before the operation. */
  private final long[] waited;

  private @Nullable LowLatencyDispatch dispatch;
  private @Nullable LowLatencyCombine combine;
  private @Nullable WorldRouting combined;
  private LowLatencyCombineOptions combining = LowLatencyCombineOptions.DEFAULT;

  /**
   * @param hooked whether dispatch and combine are split by their hooks; else this rank chooses
   * @param masked ranks that take no part
   */
  public LowLatencyRoundTrip(RankContext in, Arena arena, boolean hooked, boolean[] masked) {
    this.in = in;
    this.arena = arena;
    this.hooked = hooked;
    hidden = hidden(in);
    batch = Batch.draw(in.shared(), in.shape(), in.shape().lowLatencyMaxTokens(), true, arena);
    routing = batch.routing(in, arena);
    int maxTokens = in.shape().lowLatencyMaxTokens();
    oracle = new LowLatencyOracle(batch.world(), maxTokens, hidden, masked);
    boolean rankMajor = in.shared().nextInt(3) == 0;
    byRanks = rankMajor ? new RankMajorOracle(batch.world(), maxTokens, hidden, masked) : null;
    x = new EdgeCaseRows(in.shared().nextLong(), hidden);
    y = new EdgeCaseRows(in.shared().nextLong(), hidden);
    RowFormat format = RowFormat.values()[in.shared().nextInt(3)];
    ScaleKind kind = ScaleKind.values()[in.shared().nextInt(3)];
    if (kind == ScaleKind.UE8M0 && hidden % UE8M0_MULTIPLE != 0) {
      kind = ScaleKind.FLOAT32_POW2;
    }
    float globalScale = GLOBAL_SCALES[in.shared().nextInt(GLOBAL_SCALES.length)];
    int local = batch.world().placement().localExperts(in.rank());
    before = new int[local];
    for (int l = 0; l < local; l++) {
      before[l] = in.own().nextInt(100);
    }
    statistics = in.own().nextBoolean() ? Tensor.of(before.clone(), local) : null;
    waited = new long[in.shape().ranks()];
    Arrays.fill(waited, FIRST_WAIT);
    waits = Tensor.of(waited.clone(), in.shape().ranks());
    LowLatencyDispatchOptions.Builder builder =
        LowLatencyDispatchOptions.builder()
            .experts(batch.experts())
            .format(format)
            .scaleKind(kind)
            .scaleLayout(ScaleLayout.values()[in.own().nextInt(2)])
            .deliverWeights(in.shared().nextBoolean() && batch.world().weighted())
            .returnHook(hooked)
            .execution(
                !hooked && in.own().nextInt(3) == 0
                    ? Execution.ASYNCHRONOUS
                    : Execution.SYNCHRONOUS);
    if (globalScale != 1 || in.own().nextBoolean()) {
      builder.globalScale(Tensor.of(new float[] {globalScale}, 1));
    }
    if (statistics != null) {
      builder.cumulativeStats(statistics);
    }
    if (in.own().nextBoolean()) {
      builder.waitStats(waits);
    }
    dispatching = builder.build();
  }

  /** Often the longest rows, else any length: dispatches of all of them alternate. */
  private static int hidden(RankContext in) {
    int blocks = in.shape().hidden() / ROW_BLOCK;
    boolean longest = in.shared().nextInt(3) != 0;
    return ROW_BLOCK * (longest ? blocks : in.shared().nextInt(1, blocks + 1));
  }

  /** Sends the rows. */
  public void sendDispatch() {
    int tokens = batch.world().tokens(in.rank());
    Tensor rows = in.empty(arena, DType.BF16, tokens, hidden);
    long rowBytes = 2L * hidden;
    HostCopy.write(
        rows,
        memory -> {
          for (long t = 0; t < tokens; t++) {
            x.fill(memory.asSlice(t * rowBytes, rowBytes), in.rank(), t);
          }
        });
    in.next("send " + dispatching + ", " + tokens + " tokens of " + hidden);
    dispatch =
        in.buffer()
            .lowLatencyDispatch(
                byRanks == null ? Layout.EXPERT_MAJOR : Layout.RANK_MAJOR,
                rows,
                routing,
                dispatching);
  }

  /** Receives the rows, and checks them. */
  public void receiveDispatch() {
    LowLatencyDispatch received = Objects.requireNonNull(dispatch);
    in.next("receive " + dispatching);
    if (hooked) {
      received.hook().receive();
    } else {
      received.event().await();
    }
    in.counts().lowLatencyDispatches++;
    if (byRanks == null) {
      oracle.checkDispatch(in.rank(), received, x, dispatching);
    } else {
      byRanks.checkDispatch(in.rank(), (RankMajorDispatch) received, x, dispatching);
    }
    if (statistics != null) {
      int[] counts = oracle.receiveCounts(in.rank());
      for (int l = 0; l < counts.length; l++) {
        if (statistics.getInt(l) != before[l] + counts[l]) {
          throw new AssertionError(
              "cumulativeStats["
                  + l
                  + "] grew by "
                  + (statistics.getInt(l) - before[l])
                  + " instead of "
                  + counts[l]);
        }
      }
    }
    checkWaits();
    if (in.own().nextBoolean()) {
      Poison.fill(received);
    }
  }

  private void checkWaits() {
    for (int r = 0; r < in.shape().ranks(); r++) {
      if (waits.getLong(r) < waited[r]) {
        throw new AssertionError(
            "waitStats of rank " + r + " fell from " + waited[r] + " to " + waits.getLong(r));
      }
      waited[r] = waits.getLong(r);
    }
  }

  /** Returns the experts' rows. */
  public void sendCombine() {
    LowLatencyDispatch received = Objects.requireNonNull(dispatch);
    // 0: LogFMT, 1: partial rounding
    int arithmetic = byRanks == null ? in.shared().nextInt(3) : 2;
    boolean zeroCopy = arithmetic != 0 && in.own().nextBoolean();
    boolean byExperts = byRanks == null && arithmetic != 1 && in.own().nextBoolean();
    Tensor rows =
        zeroCopy ? in.buffer().lowLatencyCombineBuffer(received.handle()) : expertMemory();
    HostCopy.write(
        rows,
        memory -> {
          Poison.fill(memory);
          fillExpertRows(memory);
        });
    Routing weighed = combinedRouting();
    LowLatencyCombineOptions.Builder builder =
        LowLatencyCombineOptions.builder()
            .logFmt(arithmetic == 0)
            .partialRounding(arithmetic == 1)
            .order(byExperts ? CombineOrder.EXPERT : CombineOrder.CHOICE)
            .zeroCopy(zeroCopy)
            .returnHook(hooked)
            .execution(
                !hooked && in.own().nextInt(3) == 0
                    ? Execution.ASYNCHRONOUS
                    : Execution.SYNCHRONOUS);
    if (in.own().nextBoolean()) {
      int tokens = batch.world().tokens(in.rank());
      Tensor out = in.empty(arena, DType.BF16, tokens, hidden);
      Poison.fill(out);
      builder.out(out);
    }
    if (in.own().nextBoolean()) {
      builder.waitStats(waits);
    }
    combining = builder.build();
    in.next("send " + combining);
    combine = in.buffer().lowLatencyCombine(rows, weighed, received.handle(), combining);
  }

  /** Receives and sums, and checks the sums. */
  public void receiveCombine() {
    LowLatencyCombine summed = Objects.requireNonNull(combine);
    in.next("receive " + combining);
    if (hooked) {
      summed.hook().receive();
    } else {
      summed.event().await();
    }
    in.counts().lowLatencyCombines++;
    if (byRanks == null) {
      oracle.checkCombine(in.rank(), summed.x(), y, Objects.requireNonNull(combined), combining);
    } else {
      byRanks.checkCombine(in.rank(), summed.x(), y);
    }
    Tensor out = combining.out();
    if (out != null && HostCopy.mismatch(out, summed.x()) >= 0) {
      throw new AssertionError("the sums of a low-latency combine with 'out' are not in it");
    }
    checkWaits();
    Poison.fill(summed.x());
  }

  private Tensor expertMemory() {
    long ranks = in.shape().ranks();
    long maxTokens = in.shape().lowLatencyMaxTokens();
    long groups = byRanks == null ? batch.world().placement().localExperts(in.rank()) : ranks;
    long rows = byRanks == null ? ranks * maxTokens : maxTokens;
    return in.empty(arena, DType.BF16, groups, rows, hidden);
  }

  private void fillExpertRows(MemorySegment rows) {
    WorldRouting world = batch.world();
    long rowBytes = 2L * hidden;
    for (int s = 0; s < world.ranks(); s++) {
      for (int t = 0; t < world.tokens(s); t++) {
        for (int k = 0; k < world.topK(); k++) {
          if (world.destination(s, t, k) == in.rank()) {
            long slot =
                byRanks == null
                    ? oracle.slot(s, t, world.expert(s, t, k))
                    : byRanks.slot(s, t, in.rank());
            if (slot >= 0) {
              y.fill(rows.asSlice(slot * rowBytes, rowBytes), in.rank(), slot);
            }
          }
        }
      }
    }
  }

  /** The routing of the dispatch with new weights and, sometimes, masked choices. */
  private Routing combinedRouting() {
    long seed = in.shared().nextLong();
    boolean gaps = in.shared().nextInt(3) == 0;
    List<Routing> all = new ArrayList<>();
    for (int r = 0; r < in.shape().ranks(); r++) {
      var random = new SplittableRandom(seed + r);
      Tensor idx = batch.routings().get(r).topkIdx();
      long[] ids = new long[(int) idx.elements()];
      float[] weights = new float[ids.length];
      for (int i = 0; i < ids.length; i++) {
        ids[i] = gaps && random.nextInt(5) == 0 ? -1 : idx.getLong(i);
        weights[i] = (float) random.nextDouble(-2, 2);
      }
      all.add(new Routing(Tensor.of(ids, idx.shape()), Tensor.of(weights, idx.shape())));
    }
    combined = WorldRouting.of(batch.world().placement(), all);
    return all.get(in.rank());
  }

  /** A third operation in flight must be refused without side effects. */
  public void tryThird() {
    try {
      sendDispatch();
    } catch (IllegalStateException e) {
      return;
    }
    throw new AssertionError("a third low-latency operation in flight was accepted");
  }
}
