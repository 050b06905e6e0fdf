package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.HighThroughputTest.config;
import static org.ep4j.engine.host.buffer.HighThroughputTest.constant;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.DispatchHandle;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** A buffer has memory for the layouts that its configuration declares. */
class DeclaredLayoutsTest {
  private static BufferConfig with(Layout... layouts) {
    return config()
        .highThroughput(HighThroughputTest.LIMITS.toBuilder().layouts(layouts).build())
        .build();
  }

  @Test
  void aLayoutThatIsNotDeclaredIsRefusedAndTheBufferStaysUsable() {
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, with(Layout.FLAT))) {
            buffer.warmUp();
            assertThatThrownBy(() -> buffer.dispatchGrouped(constant(1, 1), ids(0, 1)))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith(ErrorCode.LAYOUT_NOT_DECLARED.id())
                .hasMessageContaining("layouts(EXPERT_MAJOR)");
            assertThat(buffer.dispatch(constant(1, 1), ids(0, 1)).rows()).isEqualTo(1);
          }
          try (ExpertBuffer buffer = ExpertBuffer.open(group, with(Layout.EXPERT_MAJOR))) {
            buffer.warmUp();
            assertThatThrownBy(() -> buffer.dispatch(constant(1, 1), ids(0, 1)))
                .hasMessageStartingWith(ErrorCode.LAYOUT_NOT_DECLARED.id());
            assertThat(buffer.dispatchGrouped(constant(1, 1), ids(0, 1)).receivedRows())
                .isEqualTo(2);
          }
        });
  }

  /** FLAT delivers at most one row of a token; two ranks of eight tokens. */
  @Test
  void theWorstCaseIsThatOfTheDeclaredLayouts() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer flat = ExpertBuffer.open(group, with(Layout.FLAT))) {
            assertThat(flat.config().highThroughput().orElseThrow().maxReceiveRows()).hasValue(16);
          }
        });
    long flat = bytes(Layout.FLAT);
    assertThat(flat).isLessThan(bytes(Layout.FLAT, Layout.EXPERT_MAJOR));
    assertThat(bytes(Layout.EXPERT_MAJOR)).isEqualTo(bytes(Layout.FLAT, Layout.EXPERT_MAJOR));
  }

  /** A bound for several shapes costs the smaller ones nothing. */
  @Test
  void aBoundAboveTheWorstCaseReservesTheWorstCase() {
    HighThroughputConfig above =
        HighThroughputTest.LIMITS.toBuilder()
            .layouts(Layout.FLAT)
            .maxReceiveRows(Long.MAX_VALUE)
            .build();
    BufferConfig config = config().highThroughput(above).build();
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            assertThat(buffer.config().highThroughput().orElseThrow().maxReceiveRows())
                .hasValue(16);
          }
        });
    assertThat(ExpertBuffer.sizes(config, 2)).isEqualTo(ExpertBuffer.sizes(with(Layout.FLAT), 2));
  }

  /** Bytes that peers reach, with enough tokens for more than a page. */
  private static long bytes(Layout... layouts) {
    HighThroughputConfig limits =
        HighThroughputTest.LIMITS.toBuilder().maxTokens(1024).layouts(layouts).build();
    return ExpertBuffer.sizes(config().highThroughput(limits).build(), 2).symmetricBytes();
  }

  /** Also where ranks are threads, which could read any memory: programs fail alike everywhere. */
  @Test
  void aBufferThatCombinesInPlaceRefusesRowsElsewhere() {
    BufferConfig config =
        config()
            .highThroughput(
                HighThroughputTest.LIMITS.toBuilder()
                    .layouts(Layout.FLAT)
                    .combineInPlace(true)
                    .build())
            .build();
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            // Rank 1 has no experts of these choices: it combines without rows.
            FlatDispatch received = buffer.dispatch(constant(3, 1), ids(0, 1));
            try (DispatchHandle handle = received.handle()) {
              long rows = received.rows();
              if (rows > 0) {
                refused(() -> buffer.combine(constant(3, (int) rows), handle));
              }
              refused(() -> received.combineInput(DType.FP32));
              assertThat(buffer.combine(received.x(), handle).x().getFloat(0)).isEqualTo(3);
            }
          }
        });
  }

  @Test
  void aBufferOfGroupedRowsRefusesRowsElsewhereWhereRanksHoldFewOfAToken() {
    for (int ranks : new int[] {1, 2}) {
      BufferConfig config =
          config()
              .highThroughput(
                  HighThroughputTest.LIMITS.toBuilder()
                      .layouts(Layout.EXPERT_MAJOR)
                      .combineInPlace(true)
                      .build())
              .build();
      ThreadRanks.run(
          ranks,
          group -> {
            try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
              GroupedDispatch received = buffer.dispatchGrouped(constant(3, 1), ids(0, 1));
              try (DispatchHandle handle = received.handle()) {
                int rows = (int) received.rows();
                if (rows > 0 && ranks >= buffer.config().topK()) {
                  refused(() -> buffer.combine(constant(3, rows), handle));
                }
                buffer.combine(received.combineInput(DType.BF16), handle);
              }
            }
          });
    }
  }

  private static void refused(ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.ROWS_NOT_IN_REGION.id());
  }

  @Test
  void aBoundBelowTheRowsOfOneTokenIsRefused() {
    BufferConfig small =
        config()
            .highThroughput(HighThroughputTest.LIMITS.toBuilder().maxReceiveRows(1).build())
            .build();
    assertThatThrownBy(() -> ExpertBuffer.sizes(small, 2))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.RECEIVE_ROWS_TOO_FEW.id())
        .hasMessageContaining("at least 2");
  }

  private static Routing ids(long... ids) {
    return Routing.of(Tensor.of(ids, 1, ids.length));
  }
}
