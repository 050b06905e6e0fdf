package org.ep4j.verify;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.ep4j.DispatchOptions;
import org.ep4j.Sizing;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.HighThroughputOracle.Blocks;
import org.ep4j.verify.HighThroughputOracle.Payload;
import org.ep4j.verify.NaiveWorld.Delivered;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class HighThroughputOracleTest {
  private static final int HIDDEN = 32;
  private static final Payload PAYLOAD =
      new Payload(
          DType.FP8_E4M3,
          HIDDEN,
          new Inputs(3).rows(Inputs.Part.PAYLOAD, DType.FP8_E4M3, HIDDEN),
          new Blocks(DType.FP32, 3, new Inputs(3).rows(Inputs.Part.SCALES, DType.FP32, 3)),
          null);

  /** Three ranks, uneven experts, tokens 5, 0 and 9, some entries masked. */
  private static WorldRouting world(long seed) {
    ExpertPlacement placement = ExpertPlacement.table(new int[] {2, 0, 0, 1, 2, 2, 0, 2}, 3);
    RoutingGenerator generator = new RoutingGenerator(RoutingKind.UNIFORM, seed, 8, 3);
    List<Routing> routings = new ArrayList<>();
    try (Arena arena = Arena.ofConfined()) {
      for (int tokens : new int[] {5, 0, 9}) {
        routings.add(generator.routing(routings.size(), tokens, 60, arena));
      }
      return WorldRouting.of(placement, routings);
    }
  }

  /** Options of a dispatch with a layout. */
  private record Choice(Layout layout, DispatchOptions options) {}

  private static DispatchOptions options(int alignment, Sizing sizing) {
    return DispatchOptions.builder()
        .expertAlignment(alignment)
        .sizing(sizing)
        .zeroPadding(true)
        .build();
  }

  private static List<Choice> allOptions() {
    List<Choice> all = new ArrayList<>();
    for (Layout layout : List.of(Layout.FLAT, Layout.EXPERT_MAJOR)) {
      for (int alignment : new int[] {1, 4}) {
        all.add(new Choice(layout, options(alignment, Sizing.EXACT)));
        all.add(new Choice(layout, options(alignment, Sizing.atMost(64))));
      }
    }
    return all;
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3, 4, 5})
  void aFaultlessDispatchPasses(long seed) {
    WorldRouting world = world(seed);
    HighThroughputOracle oracle = new HighThroughputOracle(world);
    try (Arena arena = Arena.ofConfined()) {
      for (Choice choice : allOptions()) {
        Layout layout = choice.layout();
        DispatchOptions options = choice.options();
        for (int rank = 0; rank < 3; rank++) {
          Delivered delivered =
              new NaiveWorld(world).deliver(rank, layout, PAYLOAD, options, arena);
          oracle.checkDispatch(rank, layout, delivered, PAYLOAD, options);
          delivered.topkIdx = null;
          delivered.topkWeights = null;
          oracle.checkCached(rank, layout, delivered, PAYLOAD, options);
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3})
  void everyFlippedBitThatMeansSomethingIsFoundWhereItIs(long seed) {
    WorldRouting world = world(seed);
    HighThroughputOracle oracle = new HighThroughputOracle(world);
    SplittableRandom random = new SplittableRandom(seed);
    try (Arena arena = Arena.ofConfined()) {
      for (Choice choice : allOptions()) {
        Layout layout = choice.layout();
        DispatchOptions options = choice.options();
        Delivered delivered = new NaiveWorld(world).deliver(2, layout, PAYLOAD, options, arena);
        long used = delivered.rows - (options.sizing().isStatic() ? 40 : 0);
        for (Map.Entry<String, Tensor> output : delivered.tensors().entrySet()) {
          MemorySegment bytes = output.getValue().segment();
          boolean perRow = output.getValue().size(0) == delivered.rows;
          long rowBytes = bytes.byteSize() / output.getValue().size(0);
          for (int n = 0; n < 20; n++) {
            long at = random.nextLong(bytes.byteSize());
            long row = at / rowBytes;
            boolean padding = perRow && (row >= used || delivered.sourceRanks.getInt(row) < 0);
            if (padding) {
              continue;
            }
            byte old = bytes.get(ValueLayout.JAVA_BYTE, at);
            bytes.set(ValueLayout.JAVA_BYTE, at, (byte) (old ^ 1 << random.nextInt(8)));
            VerificationException e =
                catchThrowableOfType(
                    VerificationException.class,
                    () -> oracle.checkDispatch(2, layout, delivered, PAYLOAD, options));
            assertThat(e).as("%s of %s", output.getKey(), choice).isNotNull();
            assertThat(e.mismatch().output()).isEqualTo(output.getKey());
            assertThat(e.mismatch().rank()).isEqualTo(2);
            assertThat(e.mismatch().row()).isEqualTo(row);
            if (output.getKey().equals("x")) {
              assertThat(e.mismatch().byteOffset()).isEqualTo(at % rowBytes);
              assertThat(e.mismatch().sourceToken()).isEqualTo(delivered.sourceTokens.getInt(row));
              assertThat(e.mismatch().sourceRank()).isEqualTo(delivered.sourceRanks.getInt(row));
            }
            bytes.set(ValueLayout.JAVA_BYTE, at, old);
          }
        }
        oracle.checkDispatch(2, layout, delivered, PAYLOAD, options);
      }
    }
  }

  @Test
  void theMismatchReadsAsASentence() {
    WorldRouting world = world(1);
    HighThroughputOracle oracle = new HighThroughputOracle(world);
    DispatchOptions options = options(1, Sizing.EXACT);
    try (Arena arena = Arena.ofConfined()) {
      Delivered delivered =
          new NaiveWorld(world).deliver(2, Layout.EXPERT_MAJOR, PAYLOAD, options, arena);
      delivered.x.rows(3, 4).segment().set(ValueLayout.JAVA_BYTE, 30, (byte) 0);
      String right =
          "%02x %02x"
              .formatted(
                  PAYLOAD
                      .x()
                      .row(delivered.sourceRanks.getInt(3), delivered.sourceTokens.getInt(3))
                      .get(ValueLayout.JAVA_BYTE, 30),
                  delivered.x.rows(3, 4).segment().get(ValueLayout.JAVA_BYTE, 31));
      assertThatThrownBy(
              () -> oracle.checkDispatch(2, Layout.EXPERT_MAJOR, delivered, PAYLOAD, options))
          .isInstanceOf(VerificationException.class)
          .hasMessageMatching(
              ErrorCode.VERIFICATION_FAILED.id()
                  + ": dispatch: x of rank 2, row 3 \\(token \\d of rank \\d, expert \\d\\), byte"
                  + " 30: expected "
                  + right
                  + ", found 00 "
                  + right.substring(3));
    }
  }

  @Test
  void dirtyPaddingIsFoundWhereZerosWereAskedFor() {
    WorldRouting world = world(2);
    HighThroughputOracle oracle = new HighThroughputOracle(world);
    DispatchOptions options = options(4, Sizing.EXACT);
    try (Arena arena = Arena.ofConfined()) {
      Delivered delivered =
          new NaiveWorld(world).deliver(0, Layout.EXPERT_MAJOR, PAYLOAD, options, arena);
      int row = 0;
      while (delivered.sourceRanks.getInt(row) >= 0) {
        row++;
      }
      delivered.x.segment().set(ValueLayout.JAVA_BYTE, row * (long) HIDDEN + 7, (byte) 1);
      assertThatThrownBy(
              () -> oracle.checkDispatch(0, Layout.EXPERT_MAJOR, delivered, PAYLOAD, options))
          .hasMessageStartingWith(
              ErrorCode.VERIFICATION_FAILED.message(
                  "dispatch: x (padding) of rank 0, row " + row + ", byte 7:"));
    }
  }

  @Test
  void anOverflowMustBeReportedWithItsNumbers() {
    WorldRouting world = world(3);
    HighThroughputOracle oracle = new HighThroughputOracle(world);
    int needed = oracle.rows(2, Layout.FLAT, 1);
    DispatchOptions enough = options(1, Sizing.atMost(needed));
    DispatchOptions tooFew = options(1, Sizing.atMost(needed - 1));
    try (Arena arena = Arena.ofConfined()) {
      Delivered delivered = new NaiveWorld(world).deliver(2, Layout.FLAT, PAYLOAD, enough, arena);
      oracle.checkDispatch(2, Layout.FLAT, delivered, PAYLOAD, enough);
      Delivered cut = new NaiveWorld(world).deliver(2, Layout.FLAT, PAYLOAD, tooFew, arena);
      assertThatThrownBy(() -> oracle.checkDispatch(2, Layout.FLAT, cut, PAYLOAD, tooFew))
          .hasMessageContaining("overflow of rank 2: expected " + needed + " rows needed")
          .hasMessageEndingWith("found null");
      cut.overflow = new ReceiveOverflowException(2, needed, needed - 1);
      oracle.checkDispatch(2, Layout.FLAT, cut, PAYLOAD, tooFew);
      assertThatThrownBy(() -> oracle.checkDispatch(2, Layout.FLAT, cut, PAYLOAD, enough))
          .isInstanceOf(VerificationException.class);
      cut.x
          .segment()
          .set(ValueLayout.JAVA_BYTE, 0, (byte) ~cut.x.segment().get(ValueLayout.JAVA_BYTE, 0));
      assertThatThrownBy(() -> oracle.checkDispatch(2, Layout.FLAT, cut, PAYLOAD, tooFew))
          .hasMessageContaining("x of rank 2, row 0");
    }
  }

  @Test
  void wrongShapesAndTypesAreNamed() {
    WorldRouting world = world(4);
    HighThroughputOracle oracle = new HighThroughputOracle(world);
    DispatchOptions options = options(1, Sizing.EXACT);
    try (Arena arena = Arena.ofConfined()) {
      Delivered delivered = new NaiveWorld(world).deliver(0, Layout.FLAT, PAYLOAD, options, arena);
      delivered.scales = null;
      assertThatThrownBy(() -> oracle.checkDispatch(0, Layout.FLAT, delivered, PAYLOAD, options))
          .hasMessageContaining("scales of rank 0: expected FP32[")
          .hasMessageEndingWith("found null");
    }
  }
}
