package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.HighThroughputTest.HIDDEN;
import static org.ep4j.engine.host.buffer.HighThroughputTest.config;
import static org.ep4j.engine.host.buffer.HighThroughputTest.constant;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.Consumer;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Arguments that high-throughput operations refuse, and the errors. */
class HighThroughputErrorsTest {
  /** Runs on one rank; most checks need no peer. */
  private static void alone(Consumer<ExpertBuffer> body) {
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            body.accept(buffer);
            // No rank has sent anything: the buffer works.
            assertThat(buffer.dispatch(constant(1, 1), ids(0, 1)).rows()).isEqualTo(1);
          }
        });
  }

  private static Routing ids(long... ids) {
    return Routing.of(Tensor.of(ids, ids.length / 2, 2));
  }

  private static void refused(
      ThrowingCallable call, ErrorCode code, String argument, String... parts) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            InvalidArgumentException.class,
            e -> {
              assertThat(e.argument()).isEqualTo(argument);
              assertThat(e.errorCode()).isEqualTo(code);
            })
        .hasMessageContainingAll(parts);
  }

  @Test
  void idOutOfRangeIsNamedWithTokenAndChoice() {
    alone(
        b -> {
          refused(
              () -> b.dispatch(constant(1, 2), ids(0, 1, 2, 4)),
              ErrorCode.NO_SUCH_EXPERT,
              "topkIdx[1, 1]",
              "topkIdx[1, 1] = 4; it must be -1..3");
          refused(
              () -> b.dispatch(constant(1, 1), ids(-2, 1)),
              ErrorCode.NO_SUCH_EXPERT,
              "topkIdx[0, 0]",
              "topkIdx[0, 0] = -2");
          refused(
              () -> b.dispatchLayout(ids(0, 1L << 40)),
              ErrorCode.NO_SUCH_EXPERT,
              "topkIdx[0, 1]",
              "1099511627776");
        });
  }

  @Test
  void expertChosenTwiceIsRefusedInEveryLayout() {
    alone(
        b -> {
          for (Layout layout : List.of(Layout.FLAT, Layout.EXPERT_MAJOR)) {
            refused(
                () ->
                    b.dispatch(
                        layout,
                        Tokens.of(constant(1, 2)),
                        ids(0, 1, 3, 3),
                        DispatchOptions.DEFAULT),
                ErrorCode.EXPERT_TWICE,
                "topkIdx[1, 1]",
                "topkIdx[1, 1] = 3");
          }
          refused(
              () -> b.dispatchLayout(ids(2, 2)), ErrorCode.EXPERT_TWICE, "topkIdx[0, 1]", "= 2");
        });
  }

  @Test
  void tooManyTokensAreRefused() {
    alone(
        b ->
            refused(
                () -> b.dispatch(constant(1, 9), ids(new long[18])),
                ErrorCode.TOO_MANY_TOKENS,
                "x",
                "x = 9 tokens; it must be at most 8"));
  }

  @Test
  void shapesAndTypesOfThePayloadAreChecked() {
    alone(
        b -> {
          Tensor longer = Tensor.ofBf16(new short[24], 1, 24);
          refused(
              () -> b.dispatch(longer, ids(0, 1)),
              ErrorCode.WRONG_TENSOR,
              "x",
              "[tokens, 1..16] (BufferConfig.hidden)");
          refused(
              () -> b.dispatch(Tensor.ofBf16(new short[4], 1, 4), ids(0, 1)),
              ErrorCode.ROWS_NOT_ALIGNED,
              "x",
              "pad hidden to 8");
          Tensor wide = Tensor.of(new float[HIDDEN], 1, HIDDEN);
          refused(
              () -> b.dispatch(wide, ids(0, 1)),
              ErrorCode.ROW_TYPE_TOO_WIDE,
              "x",
              "FP32[1, 16]",
              "no wider than BF16",
              "rowDType");
          Tensor integers = Tensor.of(new int[HIDDEN], 1, HIDDEN);
          refused(
              () -> b.dispatch(integers, ids(0, 1)),
              ErrorCode.ROW_TYPE_TOO_WIDE,
              "x",
              "INT32[1, 16]");
          Tensor packed = Tensor.of(MemorySegment.ofArray(new byte[8]), DType.NVFP4, 1, HIDDEN);
          refused(
              () -> b.dispatch(packed, ids(0, 1)),
              ErrorCode.ROWS_NOT_ALIGNED,
              "x",
              "rows of a multiple of 32 elements for NVFP4 (16-byte rows)",
              "pad hidden to 32");
          refused(
              () -> b.dispatch(constant(1, 1), ids(0, 1, 2, 3)),
              ErrorCode.TOKENS_DIFFER,
              "topkIdx",
              "of 1 tokens like x",
              "-1 for rows without experts");
          Routing three = Routing.of(Tensor.of(new long[] {0, 1, 2}, 1, 3));
          refused(
              () -> b.dispatch(constant(1, 1), three),
              ErrorCode.TOP_K_TOO_LARGE,
              "topkIdx",
              "[tokens, 1..2]",
              "larger topK");
          Tensor fp8 =
              Tensor.of(MemorySegment.ofArray(new byte[HIDDEN]), DType.FP8_E4M3, 1, HIDDEN);
          Tensor scales = Tensor.of(new float[5], 1, 5);
          refused(
              () -> b.dispatch(Tokens.of(fp8, scales), ids(0, 1)),
              ErrorCode.SCALES_TOO_WIDE,
              "scales",
              "FP32[1, 5]",
              "at most 16 bytes per row");
        });
  }

  @Test
  void deviceTensorsAreRefused() {
    alone(
        b -> {
          Tensor device = Tensor.ofDevice(4096, 0, DType.BF16, 1, HIDDEN);
          refused(
              () -> b.dispatch(device, ids(0, 1)),
              ErrorCode.TENSOR_NOT_ON_HOST,
              "x",
              "@device0",
              "in host memory");
        });
  }

  @Test
  void memoryThatHasBeenClosedIsRefused() {
    alone(
        b -> {
          Tensor closed;
          try (Arena arena = Arena.ofConfined()) {
            closed = Tensor.of(arena.allocate(2 * HIDDEN), DType.BF16, 1, HIDDEN);
          }
          refused(() -> b.dispatch(closed, ids(0, 1)), ErrorCode.TENSOR_CLOSED, "x", "x");
        });
  }

  @Test
  void optionsBeyondTheConfigurationAreRefused() {
    alone(
        b -> {
          DispatchOptions aligned = DispatchOptions.builder().expertAlignment(5).build();
          refused(
              () -> b.dispatchGrouped(Tokens.of(constant(1, 1)), ids(0, 1), aligned),
              ErrorCode.ALIGNMENT_TOO_LARGE,
              "expertAlignment",
              "expertAlignment = 5; it must be at most 4");
          DispatchOptions large = DispatchOptions.builder().sizing(Sizing.atMost(1000)).build();
          refused(
              () -> b.dispatch(Tokens.of(constant(1, 1)), ids(0, 1), large),
              ErrorCode.ROW_LIMIT_TOO_LARGE,
              "maxRows",
              "maxRows = 1000; it must be at most",
              "raise maxReceiveRows");
        });
  }

  @Test
  void rowsToCombineAreChecked() {
    alone(
        b -> {
          Dispatch d = b.dispatch(constant(1, 3), ids(0, 1, 2, 3, 0, 3));
          DispatchHandle h = d.handle();
          refused(
              () -> b.combine(constant(1, 2), h),
              ErrorCode.TOO_FEW_ROWS,
              "y",
              "BF16[2, 16]",
              "of at least 3 rows, as many as this rank received");
          refused(
              () -> b.combine(Tensor.of(new int[48], 3, 16), h),
              ErrorCode.WRONG_TENSOR,
              "y",
              "BF16, FP16 or FP32");
          refused(
              () -> b.combine(Tensor.ofBf16(new short[72], 3, 24), h),
              ErrorCode.WRONG_TENSOR,
              "y",
              "[rows, 1..16] (BufferConfig.hidden)");
          refused(
              () -> b.combine(d.x(), h, CombineOptions.builder().bias(constant(0, 2)).build()),
              ErrorCode.WRONG_TENSOR,
              "bias0",
              "BF16[3, 16]");
          refused(
              () ->
                  b.combine(
                      d.x(),
                      h,
                      CombineOptions.builder().bias(constant(0, 3), constant(0, 4)).build()),
              ErrorCode.WRONG_TENSOR,
              "bias1",
              "BF16[3, 16]");
          refused(
              () -> b.combine(d.x(), h, CombineOptions.builder().out(constant(0, 4)).build()),
              ErrorCode.WRONG_TENSOR,
              "out",
              "BF16[3, 16]");
          Tensor flat = Tensor.of(new float[3], 3);
          refused(
              () -> b.combine(d.x(), h, CombineOptions.builder().topkWeights(flat).build()),
              ErrorCode.WRONG_TENSOR,
              "topkWeights",
              "FP32[rows, 2]");
          Tensor few = Tensor.of(new float[4], 2, 2);
          refused(
              () -> b.combine(d.x(), h, CombineOptions.builder().topkWeights(few).build()),
              ErrorCode.TOO_FEW_ROWS,
              "topkWeights",
              "of at least 3 rows");
        });
  }

  /** Rows of a multiple of 16 bytes in the widest type may be shorter in another. */
  @Test
  void rowsToCombineAreWholeUnitsOfTransfer() {
    int hidden = 4;
    BufferConfig config =
        BufferConfig.builder()
            .hidden(hidden)
            .topK(2)
            .experts(4)
            .highThroughput(
                HighThroughputTest.LIMITS.toBuilder().maxTokens(4).rowDType(DType.FP32).build())
            .build();
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            Tensor x = Tensor.of(new float[hidden], 1, hidden);
            Dispatch dispatch = buffer.dispatch(Tokens.of(x), ids(0, 1));
            refused(
                () ->
                    buffer.combine(Tensor.ofBf16(new short[hidden], 1, hidden), dispatch.handle()),
                ErrorCode.ROWS_NOT_ALIGNED,
                "y",
                "16-byte rows");
          }
        });
  }

  @Test
  void weightsAreAppliedOnlyWhereEachRowHasOne() {
    CombineOptions applied = CombineOptions.builder().applyWeights(true).build();
    Routing weighted = Routing.of(new long[] {0, 1}, new float[] {1, 2}, 2);
    alone(
        b -> {
          Dispatch flat = b.dispatch(constant(1, 1), weighted);
          refused(
              () -> b.combine(flat.x(), flat.handle(), applied),
              ErrorCode.OPTION_NOT_FOR_LAYOUT,
              "applyWeights",
              "FLAT",
              "EXPERT_MAJOR");
          Dispatch grouped = b.dispatchGrouped(constant(1, 1), ids(0, 1));
          refused(
              () -> b.combine(grouped.x(), grouped.handle(), applied),
              ErrorCode.WEIGHTS_MISSING,
              "applyWeights",
              "had no weights",
              "topkWeights");
        });
  }

  @Test
  void resultsMustNotOverwriteTheirTerms() {
    alone(
        b -> {
          Dispatch d = b.dispatch(constant(1, 2), ids(0, 1, 2, 3));
          refused(
              () -> b.combine(d.x(), d.handle(), CombineOptions.builder().out(d.x()).build()),
              ErrorCode.OUTPUT_OVERLAPS,
              "out",
              "disjoint from y");
          short[] values = new short[2 * HIDDEN];
          Tensor readOnly =
              Tensor.of(MemorySegment.ofArray(values).asReadOnly(), DType.BF16, 2, HIDDEN);
          refused(
              () -> b.combine(d.x(), d.handle(), CombineOptions.builder().out(readOnly).build()),
              ErrorCode.TENSOR_READ_ONLY,
              "out",
              "read-only");
        });
  }

  @Test
  void combineInputIsForTypesThatCanBeSummed() {
    alone(
        b -> {
          Dispatch d = b.dispatch(constant(1, 1), ids(0, 1));
          refused(
              () -> d.combineInput(DType.FP8_E4M3),
              ErrorCode.TYPE_NOT_SUMMED,
              "dtype",
              "BF16, FP16 or FP32");
        });
  }

  @Test
  void handlesKnowTheirBufferAndTheirEnd() {
    alone(
        b -> {
          DispatchHandle handle = b.dispatch(constant(1, 2), ids(0, 1, 2, 3)).handle();
          refused(
              () -> b.dispatch(Tokens.of(constant(1, 3)), handle),
              ErrorCode.TOKENS_DIFFER,
              "x",
              "of 2 tokens like the dispatch that made the handle");
          handle.close();
          handle.close();
          assertThatThrownBy(() -> b.combine(constant(1, 2), handle))
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.HANDLE_CLOSED.id());
          assertThatThrownBy(() -> b.dispatch(Tokens.of(constant(1, 2)), handle))
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.HANDLE_CLOSED.id());
          ThreadRanks.run(
              1,
              group -> {
                try (ExpertBuffer other = ExpertBuffer.open(group, config().build())) {
                  DispatchHandle foreign = other.dispatch(constant(1, 1), ids(0, 1)).handle();
                  assertThatThrownBy(() -> b.combine(constant(1, 1), foreign))
                      .isInstanceOf(IllegalStateException.class)
                      .hasMessageStartingWith(ErrorCode.HANDLE_OF_OTHER_BUFFER.id());
                }
              });
        });
  }

  @Test
  void closedHandleStaysClosedWhileItsPlaceIsReused() {
    alone(
        b -> {
          DispatchHandle closed = b.dispatch(constant(1, 1), ids(0, 1)).handle();
          closed.close();
          for (int i = 0; i < 4; i++) {
            b.dispatch(constant(1, 1), ids(0, 1)).handle().close();
            assertThatThrownBy(() -> b.combine(constant(1, 1), closed))
                .isInstanceOf(IllegalStateException.class);
          }
        });
  }
}
