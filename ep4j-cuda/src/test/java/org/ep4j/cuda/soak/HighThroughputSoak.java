package org.ep4j.cuda.soak;

import java.util.SplittableRandom;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.Layout;
import org.ep4j.execution.DeviceStream;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Outputs;
import org.jspecify.annotations.Nullable;

/** Epochs of a dispatch, optionally its combine, optionally another pair along the same routes. */
final class HighThroughputSoak implements SoakEpochs {
  /** Epochs in which every handle of the buffer's pool is used once in EXPERT_MAJOR. */
  private static final int BY_EXPERT_FIRST = 24;

  private static final int SURPLUS = 16;

  private final SoakRank rank;

  HighThroughputSoak(SoakRank rank) {
    this.rank = rank;
  }

  /**
   * Parameters of an epoch; the same on all ranks down to {@code partialRounding}.
   *
   * @param scaleType null for BF16 rows without scales
   * @param looks whether the host reads counts, which waits for the dispatch
   * @param inOrder whether operations run on the stream of the kernels
   * @param place memory of the answers: 0 the region of the buffer, 1 the received rows, 2 other
   *     memory
   */
  private record Draw(
      SoakTraffic traffic,
      Layout layout,
      boolean exact,
      int alignment,
      boolean zeroPadding,
      boolean fp8,
      @Nullable DType scaleType,
      boolean combined,
      boolean cached,
      boolean weighted,
      boolean partialRounding,
      int surplus,
      boolean looks,
      boolean inOrder,
      boolean wide,
      ScaleLayout scaleLayout,
      boolean biased,
      boolean own,
      int place) {}

  private Draw draw() {
    SplittableRandom shared = rank.shared();
    SplittableRandom own = rank.own();
    boolean fp8 = shared.nextBoolean();
    DType[] scaleTypes = {DType.FP32, DType.INT32};
    return new Draw(
        SoakTraffic.draw(shared, rank.shape),
        rank.epoch() < BY_EXPERT_FIRST || shared.nextBoolean() ? Layout.EXPERT_MAJOR : Layout.FLAT,
        shared.nextBoolean(),
        shared.nextInt(4) == 0 ? 1 : 1 + shared.nextInt(SoakShape.ALIGNMENT),
        shared.nextBoolean(),
        fp8,
        fp8 && shared.nextInt(4) != 0 ? scaleTypes[shared.nextInt(2)] : null,
        shared.nextInt(8) != 0,
        shared.nextInt(3) == 0,
        shared.nextInt(3) == 0,
        shared.nextBoolean(),
        own.nextInt(SURPLUS),
        own.nextBoolean(),
        own.nextInt(16) != 0,
        own.nextBoolean(),
        ScaleLayout.values()[own.nextInt(4) / 3],
        own.nextInt(4) == 0,
        own.nextBoolean(),
        own.nextInt(3));
  }

  @Override
  public void next() {
    Draw d = draw();
    int tokens = d.traffic.tokens()[rank.buffer.rank()];
    rank.begin(d.traffic);
    rank.set(SoakField.BY_EXPERT, d.layout == Layout.EXPERT_MAJOR);
    rank.set(SoakField.LOW_LATENCY, false);
    rank.set(SoakField.QUANTISED, false);
    rank.set(SoakField.EXACT, d.exact);
    rank.set(SoakField.ZERO_PADDING, d.layout == Layout.EXPERT_MAJOR && d.zeroPadding);
    rank.set(SoakField.ALIGNMENT, d.alignment);
    Tokens payload = payload(d, tokens);
    var routing = rank.routing(tokens, d.wide);
    rank.makeInputs();
    DeviceStream stream = rank.stream(d.inOrder);
    Dispatch dispatch = rank.buffer.dispatch(d.layout, payload, routing, options(d, stream));
    rank.step();
    try (DispatchHandle handle = dispatch.handle()) {
      follow(d, tokens, dispatch, handle, false);
      if (d.cached) {
        rank.set(SoakField.SALT, 1);
        rank.launch(SoakKernel.MAKE);
        Dispatch again =
            rank.buffer.dispatch(
                d.layout, payload, handle, SoakRank.execution(rank.stream(d.inOrder)));
        rank.step();
        follow(d, tokens, again, handle, true);
      }
    }
    rank.end(d);
  }

  private Tokens payload(Draw d, int tokens) {
    DType type = d.fp8 ? DType.FP8_E4M3 : DType.BF16;
    long rowWords = type.bytes(rank.shape.hidden()) / Integer.BYTES;
    rank.set(SoakField.SENT_WORDS, rowWords);
    rank.set(SoakField.ROW_WORDS, rowWords);
    Tensor x = rank.x(type, tokens);
    if (d.scaleType == null) {
      rank.set(SoakField.SCALE_WORDS, 0);
      return Tokens.of(x);
    }
    int columns = rank.shape.hidden() / (d.scaleType == DType.FP32 ? 128 : 512);
    rank.set(SoakField.SCALE_WORDS, columns);
    return Tokens.of(x, rank.scales(d.scaleType, tokens, columns));
  }

  private DispatchOptions options(Draw d, @Nullable DeviceStream stream) {
    DispatchOptions.Builder options =
        DispatchOptions.builder()
            .expertAlignment(d.alignment)
            .zeroPadding(d.zeroPadding)
            .scaleLayout(d.scaleLayout);
    if (!d.exact) {
      int all = d.traffic.tokensOfAll();
      long needed = d.layout == Layout.FLAT ? all : rank.shape.maxRows(all, d.alignment);
      long max = rank.shape.maxRows(rank.shape.pairs(), SoakShape.ALIGNMENT);
      options.sizing(Sizing.atMost(Math.max(1, Math.min(max, needed + d.surplus))));
    }
    return options.execution(SoakRank.execution(stream)).build();
  }

  private void follow(
      Draw d, int tokens, Dispatch dispatch, DispatchHandle handle, boolean cached) {
    check(d, dispatch, cached);
    if (d.combined) {
      combine(d, tokens, dispatch, handle);
      rank.step();
    }
  }

  private void check(Draw d, Dispatch dispatch, boolean cached) {
    long rows = dispatch.rows();
    rank.set(SoakField.LIMIT, rows);
    rank.checks(SoakCheck.ROWS, dispatch.x());
    rank.checksScales(Outputs.scales(dispatch), Math.max(1, rows), d.scaleLayout);
    boolean choices = dispatch instanceof FlatDispatch flat && flat.hasChoices();
    require("topkIdx", choices, d.layout == Layout.FLAT && !cached);
    rank.checks(SoakCheck.IDS, choices ? ((FlatDispatch) dispatch).topkIdx() : null);
    Tensor weights = Outputs.weights(dispatch);
    require("weights", weights != null, !cached);
    rank.checks(SoakCheck.WEIGHTS, weights);
    rank.checks(SoakCheck.SOURCE_TOKENS, dispatch.sourceTokens());
    rank.checks(SoakCheck.SOURCE_RANKS, dispatch.sourceRanks());
    if (d.looks) {
      checkCounts(d, dispatch, cached);
    } else {
      rank.set(SoakField.RECEIVED_PER_EXPERT, 0);
    }
    rank.launch(SoakKernel.CHECK_ROWS);
    rank.launch(SoakKernel.CHECK_INDEX);
  }

  /** Counts are in host memory that kernels can read. */
  private void checkCounts(Draw d, Dispatch dispatch, boolean cached) {
    require("overflow", dispatch.overflow().isPresent(), false);
    rank.set(SoakField.HOST_RECEIVED, dispatch.receivedRows());
    Tensor received = dispatch.counts();
    Tensor aligned = dispatch.alignedCounts();
    // Reads them here; a cached dispatch may not have rewritten damaged counts.
    if (!cached && d.exact && d.layout == Layout.EXPERT_MAJOR && d.zeroPadding) {
      announcePadding(dispatch.x(), received, aligned);
    }
    rank.checks(SoakCheck.RECEIVED_PER_EXPERT, received);
    rank.checks(SoakCheck.TOKENS_PER_EXPERT, aligned);
    require("grouped", dispatch instanceof GroupedDispatch, d.layout == Layout.EXPERT_MAJOR);
    rank.checks(
        SoakCheck.EXPERT_OFFSETS,
        dispatch instanceof GroupedDispatch grouped ? grouped.expertOffsets() : null);
    rank.checks(
        SoakCheck.RANK_OFFSETS, dispatch instanceof FlatDispatch flat ? flat.rankOffsets() : null);
  }

  private void announcePadding(Tensor x, Tensor received, Tensor aligned) {
    int last = rank.shape.localExperts() - 1;
    if (received.getInt(last) < aligned.getInt(last)) {
      rank.checksPadding(x);
    }
  }

  private void combine(Draw d, int tokens, Dispatch dispatch, DispatchHandle handle) {
    long rows = dispatch.rows();
    Tensor y =
        d.place == 0
            ? dispatch.combineInput(DType.BF16).rows(0, rows)
            : d.place == 1 && !d.fp8
                ? dispatch.x()
                : rank.y.as(DType.BF16, rows, rank.shape.hidden());
    rank.set(SoakField.Y, y);
    rank.set(SoakField.Y_WEIGHTS, d.weighted ? rank.yWeights.address() : 0);
    CombineOptions.Builder options = CombineOptions.builder().partialRounding(d.partialRounding);
    rank.set(SoakField.BIAS, 0);
    if (d.biased) {
      options.bias(rank.bias(tokens));
      rank.launch(SoakKernel.MAKE);
    }
    rank.launch(SoakKernel.ANSWER);
    if (d.weighted) {
      options.topkWeights(
          d.layout == Layout.FLAT
              ? rank.yWeights.as(DType.FP32, rows, SoakShape.TOP_K)
              : rank.yWeights.as(DType.FP32, rows));
    }
    if (d.own) {
      options.out(rank.out(tokens));
    }
    options.execution(SoakRank.execution(rank.stream(d.inOrder)));
    Combine combine = rank.buffer.combine(y, handle, options.build());
    rank.checks(SoakCheck.SUMS, combine.x());
    Tensor sums = Outputs.weights(combine);
    require("topkWeights of the combine", sums != null, d.weighted);
    rank.checks(SoakCheck.SUMS_OF_WEIGHTS, sums);
    rank.launch(SoakKernel.CHECK_SUMS);
  }

  private void require(String what, boolean there, boolean wanted) {
    if (there != wanted) {
      throw new AssertionError(
          what + (there ? " is present" : " is missing") + ", epoch " + rank.epoch());
    }
  }
}
