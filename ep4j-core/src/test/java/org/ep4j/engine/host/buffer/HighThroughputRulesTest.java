package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.HighThroughputTest.HIDDEN;
import static org.ep4j.engine.host.buffer.HighThroughputTest.config;
import static org.ep4j.engine.host.buffer.HighThroughputTest.constant;
import static org.ep4j.engine.host.buffer.Tensors.bf16;
import static org.ep4j.engine.host.buffer.Tensors.heads;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.function.Consumer;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.GroupedDispatch;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Execution;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Rules of use for a whole buffer, and the error for each violation. */
class HighThroughputRulesTest {
  private static Routing ids(long... ids) {
    return Routing.of(Tensor.of(ids, ids.length / 2, 2));
  }

  @Test
  void bufferWithoutHighThroughputRefusesIt() {
    ThreadRanks.run(
        1,
        group -> {
          BufferConfig config =
              BufferConfig.builder().hidden(128).topK(2).experts(4).lowLatency(4).build();
          try (ExpertBuffer b = ExpertBuffer.open(group, config)) {
            Tensor x = Tensor.ofBf16(new short[128], 1, 128);
            assertThatThrownBy(() -> b.dispatch(x, ids(0, 1)))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageStartingWith(ErrorCode.HIGH_THROUGHPUT_OFF.id())
                .hasMessageContaining("BufferConfig.highThroughput");
          }
        });
  }

  @Test
  void closedBufferAndItsViewsAreRefused() {
    ThreadRanks.run(
        1,
        group -> {
          ExpertBuffer b = ExpertBuffer.open(group, config().build());
          Tensor x = b.dispatch(constant(1, 1), ids(0, 1)).x();
          b.close();
          b.close();
          assertThatThrownBy(() -> b.dispatch(constant(1, 1), ids(0, 1)))
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.BUFFER_CLOSED.id());
          assertThatThrownBy(() -> x.getFloat(0)).isInstanceOf(IllegalStateException.class);
        });
  }

  @Test
  void streamsOfDevicesAreRefused() {
    ThreadRanks.run(
        1,
        group -> {
          DeviceStream stream = new DeviceStream(7);
          DispatchOptions dispatching =
              DispatchOptions.builder().execution(Execution.on(stream)).build();
          CombineOptions combining =
              CombineOptions.builder().execution(Execution.on(stream)).build();
          try (ExpertBuffer b = ExpertBuffer.open(group, config().build())) {
            Tokens x = Tokens.of(constant(1, 1));
            refused(() -> b.dispatch(x, ids(0, 1), dispatching));
            Dispatch dispatch = b.dispatch(x, ids(0, 1));
            try (DispatchHandle handle = dispatch.handle()) {
              refused(() -> b.dispatch(x, handle, Execution.on(stream)));
              refused(() -> b.combine(dispatch.x(), handle, combining));
            }
          }
        });
  }

  private static void refused(ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(
            ErrorCode.STREAM_ON_HOST.message("stream = DeviceStream[handle=7]"));
  }

  @Test
  void ranksThatCallDifferentOperationsGetAnError() {
    different(
        b -> b.dispatch(constant(1, 1), ids(0, 1)),
        b -> b.barrier(),
        "differs in the operation: ",
        "barrier");
    Tensor fp16 = Tensor.of(MemorySegment.ofArray(new short[HIDDEN]), DType.FP16, 1, HIDDEN);
    different(
        b -> b.dispatch(constant(1, 1), ids(0, 1)),
        b -> b.dispatch(fp16, ids(0, 1)),
        "differs in the dtype of the rows: ",
        "FP16");
    different(
        b -> b.dispatch(constant(1, 1), ids(0, 1)),
        b -> b.dispatchGrouped(constant(1, 1), ids(0, 1)),
        "differs in the layout: ",
        "EXPERT_MAJOR");
    Routing weighted = Routing.of(new long[] {0, 1}, new float[2], 2);
    different(
        b -> b.dispatch(constant(1, 1), ids(0, 1)),
        b -> b.dispatch(constant(1, 1), weighted),
        "differs in the presence of topkWeights: ",
        "yes");
    different(
        b -> combine(b, weighted, false),
        b -> combine(b, weighted, true),
        "differs in the applyWeights: ",
        "yes");
    Tensor shorter = Tensor.ofBf16(new short[HIDDEN / 2], 1, HIDDEN / 2);
    different(
        b -> b.dispatch(constant(1, 1), ids(0, 1)),
        b -> b.dispatch(shorter, ids(0, 1)),
        "differs in the elements of a row (hidden): ",
        String.valueOf(HIDDEN / 2));
  }

  /** Rows that are wider than those of the buffer do not fit there. */
  @Test
  void combineInputIsTheMemoryOfTheReceivedRowsOnRequestIfTheyFit() {
    ThreadRanks.run(
        2,
        group -> {
          BufferConfig plain = config().build();
          BufferConfig inPlace =
              plain.toBuilder()
                  .highThroughput(
                      plain.highThroughput().orElseThrow().toBuilder().combineInPlace(true).build())
                  .build();
          for (BufferConfig each : List.of(plain, inPlace)) {
            try (ExpertBuffer b = ExpertBuffer.open(group, each)) {
              Dispatch d = b.dispatch(constant(1, 1), ids(0, 2));
              long rows = d.x().address();
              boolean shared = each == inPlace;
              assertThat(d.combineInput(DType.BF16).address() == rows).isEqualTo(shared);
              assertThat(d.combineInput(DType.FP32).address()).isNotEqualTo(rows);
            }
          }
        });
  }

  @Test
  void callsMayHaveShorterRowsThanTheBuffer() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer b = ExpertBuffer.open(group, config().build())) {
            int hidden = HIDDEN / 2;
            short[] ones = new short[hidden];
            Arrays.fill(ones, bf16(1 + group.rank()));
            Dispatch d = b.dispatch(Tensor.ofBf16(ones, 1, hidden), ids(0, 2));
            assertThat(d.x().shape()).containsExactly(2, hidden);
            assertThat(heads(d.x())).containsExactly(1, 2);
            assertThat(d.combineInput(DType.BF16).size(1)).isEqualTo(hidden);
            try (DispatchHandle handle = d.handle()) {
              Tensor sums = b.combine(d.x(), handle).x();
              assertThat(sums.shape()).containsExactly(1, hidden);
              assertThat(sums.getFloat(hidden - 1)).isEqualTo(2 * (1 + group.rank()));
              assertThat(heads(b.combine(constant(3, 2), handle).x())).containsExactly(6);
            }
          }
        });
  }

  private static void combine(ExpertBuffer b, Routing routing, boolean applyWeights) {
    GroupedDispatch d = b.dispatchGrouped(constant(1, 1), routing);
    CombineOptions options = CombineOptions.builder().applyWeights(applyWeights).build();
    b.combine(d.x(), d.handle(), options);
  }

  private static void different(
      Consumer<ExpertBuffer> first, Consumer<ExpertBuffer> second, String... parts) {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer b = ExpertBuffer.open(group, config().build())) {
            assertThatThrownBy(() -> (group.rank() == 0 ? first : second).accept(b))
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasMessageContaining("rank " + (1 - group.rank()))
                .hasMessageContainingAll(parts);
            assertThatThrownBy(b::barrier)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageStartingWith(ErrorCode.RESET_NEEDED.id());
            b.reset();
            assertThat(b.dispatch(constant(1, 1), ids(0, 1)).rows())
                .isEqualTo(group.rank() == 0 ? 2 : 0);
          }
        });
  }

  @Test
  void handlesOfDifferentDispatchesAreRefused() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer b = ExpertBuffer.open(group, config().build())) {
            DispatchHandle first = b.dispatch(constant(1, 1), ids(0, 2)).handle();
            DispatchHandle second = b.dispatch(constant(1, 1), ids(0, 2)).handle();
            DispatchHandle mine = group.rank() == 0 ? first : second;
            assertThatThrownBy(() -> b.combine(constant(1, 2), mine))
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasMessageStartingWith(ErrorCode.OPERATIONS_DIFFER.id());
            b.reset();
            assertThatThrownBy(() -> b.combine(constant(1, 2), first))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageStartingWith(ErrorCode.HANDLE_STALE.id());
          }
        });
  }

  @Test
  void badCallOnOneRankLetsItTryAgain() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer b = ExpertBuffer.open(group, config().build())) {
            if (group.rank() == 1) {
              assertThatThrownBy(() -> b.dispatch(constant(1, 1), ids(0, 7)))
                  .isInstanceOf(InvalidArgumentException.class);
            }
            Dispatch d = b.dispatch(constant(1 + group.rank(), 1), ids(0, 2));
            assertThat(heads(d.x())).containsExactly(1, 2);
          }
        });
  }

  @Test
  void secondThreadInsideIsRefused() {
    ThreadRanks.run(
        1,
        group -> {
          Signal signal = new Signal();
          DispatchOptions late =
              DispatchOptions.builder().execution(Execution.SYNCHRONOUS.after(signal)).build();
          try (ExpertBuffer b = ExpertBuffer.open(group, config().build())) {
            Thread waiting =
                Thread.ofPlatform()
                    .name("waiting")
                    .start(() -> b.dispatch(Tokens.of(constant(1, 1)), ids(0, 1), late));
            signal.awaitWaiter();
            assertThatThrownBy(b::parallelism)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageStartingWith(ErrorCode.BUFFER_IN_USE.id());
            assertThatThrownBy(b::close)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageStartingWith(ErrorCode.BUFFER_IN_USE.id());
            signal.happen();
            waiting.join();
            assertThat(b.parallelism()).isPositive();
          }
        });
  }
}
