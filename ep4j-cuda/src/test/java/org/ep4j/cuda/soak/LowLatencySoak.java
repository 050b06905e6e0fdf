package org.ep4j.cuda.soak;

import java.util.SplittableRandom;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.RankMajorDispatch;
import org.ep4j.config.Layout;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Outputs;

/** Epochs of a low-latency dispatch, by expert or by source rank, and its combine. */
final class LowLatencySoak implements SoakEpochs {
  private static final float LARGEST_E4M3 = 448;

  private final SoakRank rank;

  LowLatencySoak(SoakRank rank) {
    this.rank = rank;
  }

  /** Parameters of an epoch; the same on all ranks down to {@code hooked}. */
  private record Draw(
      SoakTraffic traffic,
      Layout layout,
      boolean fp8,
      ScaleKind scaleKind,
      boolean partialRounding,
      boolean hooked,
      boolean inOrder,
      boolean wide,
      ScaleLayout scaleLayout,
      boolean zeroCopy,
      boolean own) {}

  private Draw draw() {
    SplittableRandom shared = rank.shared();
    SplittableRandom own = rank.own();
    SoakTraffic traffic = SoakTraffic.draw(shared, rank.shape);
    Layout layout = shared.nextInt(3) == 0 ? Layout.RANK_MAJOR : Layout.EXPERT_MAJOR;
    return new Draw(
        traffic,
        layout,
        shared.nextBoolean(),
        shared.nextBoolean() ? ScaleKind.FLOAT32 : ScaleKind.FLOAT32_POW2,
        shared.nextInt(3) == 0 && layout == Layout.EXPERT_MAJOR,
        shared.nextInt(3) == 0,
        own.nextInt(16) != 0,
        own.nextBoolean(),
        ScaleLayout.values()[own.nextInt(4) / 3],
        own.nextBoolean(),
        own.nextBoolean());
  }

  @Override
  public void next() {
    Draw d = draw();
    int hidden = rank.shape.hidden();
    int tokens = d.traffic.tokens()[rank.buffer.rank()];
    rank.begin(d.traffic);
    rank.set(SoakField.BY_EXPERT, d.layout == Layout.EXPERT_MAJOR);
    rank.set(SoakField.LOW_LATENCY, true);
    rank.set(SoakField.ZERO_PADDING, false);
    rank.set(SoakField.QUANTISED, d.fp8);
    rank.set(SoakField.LIMIT, groups(d) * rowsOfGroup(d));
    rank.set(SoakField.SENT_WORDS, hidden / 2);
    rank.set(SoakField.ROW_WORDS, d.fp8 ? hidden / 4 : hidden / 2);
    rank.set(SoakField.SCALE_WORDS, d.fp8 ? hidden / 128 : 0);
    float scale = d.scaleKind == ScaleKind.FLOAT32 ? LARGEST_E4M3 * (1 / LARGEST_E4M3) : 1;
    rank.set(SoakField.SCALE_BITS, Float.floatToRawIntBits(scale));
    Tensor x = rank.x(DType.BF16, tokens);
    Routing routing = rank.routing(tokens, d.wide);
    rank.makeInputs();
    LowLatencyDispatch dispatch = dispatch(d, x, routing);
    rank.step();
    check(d, dispatch);
    combine(d, tokens, dispatch, routing);
    rank.step();
    rank.end(d);
  }

  private long groups(Draw d) {
    return d.layout == Layout.EXPERT_MAJOR ? rank.shape.localExperts() : rank.shape.ranks();
  }

  private long rowsOfGroup(Draw d) {
    return d.layout == Layout.EXPERT_MAJOR ? rank.shape.pairs() : rank.shape.maxTokens();
  }

  private LowLatencyDispatch dispatch(Draw d, Tensor x, Routing routing) {
    LowLatencyDispatchOptions.Builder options =
        LowLatencyDispatchOptions.builder()
            .format(d.fp8 ? RowFormat.FP8 : RowFormat.BF16)
            .scaleKind(d.scaleKind)
            .scaleLayout(d.scaleLayout)
            .returnHook(d.hooked);
    options.execution(SoakRank.execution(rank.stream(d.inOrder)));
    LowLatencyDispatch dispatch =
        rank.buffer.lowLatencyDispatch(d.layout, x, routing, options.build());
    if (d.hooked) {
      dispatch.hook().receive();
    }
    return dispatch;
  }

  private void check(Draw d, LowLatencyDispatch dispatch) {
    rank.checks(SoakCheck.ROWS, dispatch.x());
    rank.checksScales(Outputs.scales(dispatch), rowsOfGroup(d), d.scaleLayout);
    rank.launch(SoakKernel.CHECK_ROWS);
  }

  private void combine(Draw d, int tokens, LowLatencyDispatch dispatch, Routing routing) {
    Tensor y =
        d.zeroCopy
            ? rank.buffer.lowLatencyCombineBuffer(dispatch.handle())
            : rank.y.as(DType.BF16, groups(d), rowsOfGroup(d), rank.shape.hidden());
    rank.set(SoakField.Y, y);
    rank.set(SoakField.Y_WEIGHTS, 0);
    rank.set(SoakField.OUT_WEIGHTS, 0);
    rank.launch(SoakKernel.ANSWER);
    LowLatencyCombineOptions.Builder options =
        LowLatencyCombineOptions.builder()
            .partialRounding(d.partialRounding)
            .zeroCopy(d.zeroCopy)
            .returnHook(d.hooked);
    if (d.own) {
      options.out(rank.out(tokens));
    }
    options.execution(SoakRank.execution(rank.stream(d.inOrder)));
    LowLatencyCombine combine =
        rank.buffer.lowLatencyCombine(y, routing, dispatch.handle(), options.build());
    if (d.hooked) {
      combine.hook().receive();
    }
    checkIndex(dispatch);
    rank.checks(SoakCheck.SUMS, combine.x());
    rank.launch(SoakKernel.CHECK_SUMS);
  }

  /** After the combine, which may use the index: a check overwrites what it has read. */
  private void checkIndex(LowLatencyDispatch dispatch) {
    rank.checks(SoakCheck.RECEIVED_PER_EXPERT, dispatch.counts());
    rank.checks(SoakCheck.SOURCE_TOKENS, dispatch.handle().srcInfo());
    rank.checks(SoakCheck.RANGES, dispatch.handle().layoutRange());
    boolean byRank = dispatch instanceof RankMajorDispatch;
    rank.checks(SoakCheck.IDS, byRank ? ((RankMajorDispatch) dispatch).topkIdx() : null);
    rank.checks(SoakCheck.WEIGHTS, byRank ? Outputs.weights((RankMajorDispatch) dispatch) : null);
    rank.launch(SoakKernel.CHECK_LATENCY_INDEX);
  }
}
