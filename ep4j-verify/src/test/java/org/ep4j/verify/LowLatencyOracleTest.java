package org.ep4j.verify;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.RankMajorDispatch;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Inputs.Part;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The low-latency oracles find damage in the outputs of the host engine. */
class LowLatencyOracleTest {
  private static final int HIDDEN = 256;
  private static final int TOP_K = 3;
  private static final int FLIPS = 40;
  private static final int[] TOKENS = {5, 0, 9};
  private static final int MAX_TOKENS = 9;

  /** Uneven; each rank gets rows. */
  private static final ExpertPlacement PLACEMENT =
      ExpertPlacement.table(new int[] {2, 0, 0, 1, 2, 2, 0, 2}, TOKENS.length);

  private static final BufferConfig CONFIG =
      BufferConfig.builder()
          .engine("host")
          .hidden(HIDDEN)
          .topK(TOP_K)
          .placement(PLACEMENT)
          .lowLatency(MAX_TOKENS)
          .build();

  @ParameterizedTest
  @CsvSource({
    "EXPERT_MAJOR, BF16, 1",
    "EXPERT_MAJOR, FP8, 2",
    "EXPERT_MAJOR, NVFP4, 3",
    "RANK_MAJOR, BF16, 4",
    "RANK_MAJOR, FP8, 5",
    "RANK_MAJOR, NVFP4, 6"
  })
  void everyFlippedBitThatMeansSomethingIsFoundWhereItIs(
      Layout layout, RowFormat format, long seed) {
    LowLatencyDispatchOptions options = LowLatencyDispatchOptions.builder().format(format).build();
    ThreadRanks.run(
        TOKENS.length,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, CONFIG);
              Arena arena = Arena.ofShared()) {
            new Trial(buffer, layout, options, seed, arena).run();
          }
        });
  }

  /** A dispatch and its combine on one rank, and the verdicts of both oracles. */
  private static final class Trial {
    private final ExpertBuffer buffer;
    private final int rank;
    private final LowLatencyDispatchOptions options;
    private final boolean byRanks;
    private final Arena arena;
    private final Inputs inputs;
    private final SplittableRandom random;
    private final List<Routing> routings = new ArrayList<>();
    private final WorldRouting world;
    private final LowLatencyOracle oracle;
    private final RankMajorOracle rankOracle;

    Trial(
        ExpertBuffer buffer,
        Layout layout,
        LowLatencyDispatchOptions options,
        long seed,
        Arena arena) {
      this.buffer = buffer;
      this.options = options;
      this.arena = arena;
      rank = buffer.rank();
      byRanks = layout == Layout.RANK_MAJOR;
      inputs = new Inputs(seed);
      random = new SplittableRandom(seed + rank);
      RoutingGenerator generator =
          new RoutingGenerator(RoutingKind.UNIFORM, seed, PLACEMENT.experts(), TOP_K);
      for (int r = 0; r < TOKENS.length; r++) {
        routings.add(generator.routing(r, TOKENS[r], 60, arena));
      }
      world = WorldRouting.of(PLACEMENT, routings);
      oracle = new LowLatencyOracle(world, MAX_TOKENS, HIDDEN);
      rankOracle = new RankMajorOracle(world, MAX_TOKENS, HIDDEN);
    }

    void run() {
      Tensor x = inputs.tensor(Part.PAYLOAD, DType.BF16, rank, TOKENS[rank], HIDDEN, arena);
      LowLatencyDispatch d =
          buffer.lowLatencyDispatch(
              byRanks ? Layout.RANK_MAJOR : Layout.EXPERT_MAJOR, x, routings.get(rank), options);
      Runnable check = () -> checkDispatch(d);
      check.run();
      List<Integer> used = usedRows(d);
      assertThat(used).isNotEmpty();
      for (Map.Entry<String, Tensor> output : perRow(d).entrySet()) {
        Tensor tensor = output.getValue();
        long rowBytes = tensor.byteSize() / (tensor.size(0) * tensor.size(1));
        for (int n = 0; n < FLIPS; n++) {
          int row = used.get(random.nextInt(used.size()));
          long at = row * rowBytes + random.nextLong(rowBytes);
          assertThat(flip(tensor, at, output.getKey(), check).row()).isEqualTo(row);
        }
      }
      for (long at = 0; at < d.counts().byteSize(); at++) {
        flip(d.counts(), at, "counts", check);
      }
      Tensor ranges = d.handle().layoutRange();
      for (long at = 0; at < ranges.byteSize(); at++) {
        // The number of rows precedes the first row, which is undefined without rows.
        if (at % Long.BYTES < Integer.BYTES || (int) ranges.getLong(at / Long.BYTES) != 0) {
          flip(ranges, at, "layoutRange", check);
        }
      }
      combine(d);
    }

    private void checkDispatch(LowLatencyDispatch d) {
      Rows x = inputs.rows(Part.PAYLOAD, DType.BF16, HIDDEN);
      if (byRanks) {
        rankOracle.checkDispatch(rank, (RankMajorDispatch) d, x, options);
      } else {
        oracle.checkDispatch(rank, d, x, options);
      }
    }

    private List<Integer> usedRows(LowLatencyDispatch d) {
      int capacity = (int) d.x().size(1);
      List<Integer> rows = new ArrayList<>();
      for (int group = 0; group < d.x().size(0); group++) {
        for (int i = 0; i < d.counts().getInt(group); i++) {
          rows.add(group * capacity + i);
        }
      }
      return rows;
    }

    private static Map<String, Tensor> perRow(LowLatencyDispatch d) {
      Map<String, Tensor> all = new LinkedHashMap<>();
      all.put("x", d.x());
      all.put("srcInfo", d.handle().srcInfo());
      if (d.hasScales()) {
        all.put("scales", d.scales());
      }
      if (d instanceof RankMajorDispatch byRank) {
        all.put("topkIdx", byRank.topkIdx());
        all.put("topkWeights", byRank.topkWeights());
      }
      return all;
    }

    private void combine(LowLatencyDispatch d) {
      long slots = d.x().size(0) * d.x().size(1);
      Tensor rows = inputs.tensor(Part.EXPERT_OUTPUT, DType.BF16, rank, slots, HIDDEN, arena);
      Tensor y = Tensor.of(rows.segment(), DType.BF16, d.x().size(0), d.x().size(1), HIDDEN);
      LowLatencyCombineOptions sum = LowLatencyCombineOptions.DEFAULT;
      Tensor sums = buffer.lowLatencyCombine(y, routings.get(rank), d.handle(), sum).x();
      Rows terms = inputs.rows(Part.EXPERT_OUTPUT, DType.BF16, HIDDEN);
      Runnable check =
          byRanks
              ? () -> rankOracle.checkCombine(rank, sums, terms)
              : () -> oracle.checkCombine(rank, sums, terms, world, sum);
      check.run();
      for (int n = 0; n < FLIPS && sums.byteSize() > 0; n++) {
        long at = random.nextLong(sums.byteSize());
        assertThat(flip(sums, at, "x", check).row()).isEqualTo(at / (2L * HIDDEN));
      }
    }

    /** Flips a bit of a byte during {@code check}; returns the reported mismatch. */
    private Mismatch flip(Tensor tensor, long at, String output, Runnable check) {
      MemorySegment bytes = tensor.segment();
      byte old = bytes.get(ValueLayout.JAVA_BYTE, at);
      bytes.set(ValueLayout.JAVA_BYTE, at, (byte) (old ^ 1 << random.nextInt(8)));
      VerificationException e = catchThrowableOfType(VerificationException.class, check::run);
      bytes.set(ValueLayout.JAVA_BYTE, at, old);
      assertThat(e).as("byte %d of %s of rank %d", at, output, rank).isNotNull();
      assertThat(e.mismatch().output()).startsWith(output);
      assertThat(e.mismatch().rank()).isEqualTo(rank);
      return e.mismatch();
    }
  }
}
