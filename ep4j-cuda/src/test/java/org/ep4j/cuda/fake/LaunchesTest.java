package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.DType;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.Layout;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.Tensor;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.cuda.engine.launch.CombineField;
import org.ep4j.cuda.engine.launch.DispatchField;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.cuda.engine.launch.LowLatencyField;
import org.ep4j.cuda.fake.FakeKernels.Launch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What the operations launch: kernel, blocks, stream, and pointers into the right memory. */
@OnFakeDriver
class LaunchesTest {
  private static final long ROW_BYTES = Batch.HIDDEN * 2L;

  @ParameterizedTest
  @EnumSource(
      value = Layout.class,
      names = {"FLAT", "EXPERT_MAJOR"})
  void aDispatchLaunchesTheKernelOfItsLayoutWithItsTensors(Layout layout) {
    OneRank.run(
        rank -> {
          rank.dispatch(layout).handle().close();
          Launch launch = last();
          assertThat(launch.kernel())
              .isEqualTo(
                  layout == Layout.FLAT ? FakeKernels.DISPATCH : FakeKernels.EXPERT_DISPATCH);
          assertThat(launch.blocks()).isEqualTo(rank.buffer.parallelism());
          assertThat(launch.threads()).isEqualTo(Kernels.THREADS);
          assertThat(launch.stream()).isEqualTo(rank.stream.handle());
          assertThat(launch.get(DispatchField.X)).isEqualTo(rank.batch.x.address());
          assertThat(launch.get(DispatchField.IDS))
              .isEqualTo(rank.batch.routing.topkIdx().address());
          assertThat(launch.get(DispatchField.TOKENS)).isEqualTo(OneRank.TOKENS);
          assertThat(launch.get(DispatchField.ROW_BYTES)).isEqualTo(ROW_BYTES);
          assertThat(launch.get(DispatchField.CACHED)).isZero();
        });
  }

  @Test
  void theArraysOfADispatchLieInTheRegionOfItsRank() {
    OneRank.run(
        rank -> {
          Dispatch dispatch = rank.dispatch(Layout.FLAT);
          FakeDriver.Range region = FakeDriver.memory(dispatch.x().address());
          Launch launch = last();
          assertThat(region.bytes()).isPositive();
          assertThat(dispatch.x().address())
              .isEqualTo(region.start() + launch.get(DispatchField.ROWS_OFFSET));
          for (DispatchField offset :
              List.of(
                  DispatchField.READY_OFFSET,
                  DispatchField.COUNTS_OFFSET,
                  DispatchField.IDS_OFFSET,
                  DispatchField.SOURCES_OFFSET)) {
            assertThat(launch.get(offset)).as("%s", offset).isBetween(1L, region.bytes() - 1);
          }
        });
  }

  @Test
  void theRoutesAndCountsOfADispatchLieInTheMemoryOfItsHandle() {
    OneRank.run(
        rank -> {
          rank.dispatch(Layout.FLAT);
          Launch launch = last();
          FakeDriver.Range device = FakeDriver.memory(launch.get(DispatchField.ROUTES));
          FakeDriver.Range host = FakeDriver.memory(launch.get(DispatchField.TOTALS));
          assertThat(device.bytes()).isPositive();
          assertThat(host.bytes()).isPositive();
          assertThat(device).isNotEqualTo(host);
          for (DispatchField each :
              List.of(DispatchField.LISTS, DispatchField.MATRIX, DispatchField.GROUP_ROWS)) {
            assertThat(FakeDriver.memory(launch.get(each))).as("%s", each).isEqualTo(device);
          }
          for (DispatchField each :
              List.of(
                  DispatchField.RANK_OFFSETS,
                  DispatchField.EXPERT_OFFSETS,
                  DispatchField.RECEIVED,
                  DispatchField.ALIGNED)) {
            assertThat(FakeDriver.memory(launch.get(each))).as("%s", each).isEqualTo(host);
          }
        });
  }

  @Test
  void aCachedDispatchSendsAlongTheRoutesOfItsHandle() {
    OneRank.run(
        rank -> {
          try (DispatchHandle handle = rank.dispatch(Layout.FLAT).handle()) {
            Launch first = last();
            rank.buffer.dispatch(Layout.FLAT, rank.tokens, handle, rank.onStream);
            Launch again = last();
            assertThat(again.kernel()).isEqualTo(first.kernel());
            assertThat(again.get(DispatchField.CACHED)).isEqualTo(1);
            assertThat(again.get(DispatchField.IDS)).isZero();
            assertThat(again.get(DispatchField.ROUTES)).isEqualTo(first.get(DispatchField.ROUTES));
            assertThat(again.get(DispatchField.TICKET))
                .isEqualTo(first.get(DispatchField.TICKET) + 1);
            assertThat(again.get(DispatchField.COUNTS_TICKET))
                .isEqualTo(first.get(DispatchField.COUNTS_TICKET));
          }
        });
  }

  @Test
  void aCombineReturnsAlongTheRoutesOfTheDispatch() {
    OneRank.run(
        rank -> {
          Dispatch dispatch = rank.dispatch(Layout.FLAT);
          Launch dispatched = last();
          try (DispatchHandle handle = dispatch.handle()) {
            Tensor y = dispatch.combineInput(DType.BF16);
            Tensor sums = rank.buffer.combine(y, handle, rank.combining()).x();
            Launch launch = last();
            assertThat(launch.kernel()).isEqualTo(FakeKernels.COMBINE + "_bf16");
            assertThat(launch.blocks()).isEqualTo(rank.buffer.parallelism());
            assertThat(launch.stream()).isEqualTo(rank.stream.handle());
            assertThat(launch.get(CombineField.Y)).isEqualTo(y.address());
            assertThat(launch.get(CombineField.OUT)).isEqualTo(sums.address());
            assertThat(launch.get(CombineField.ROUTES))
                .isEqualTo(dispatched.get(DispatchField.ROUTES));
            assertThat(FakeDriver.memory(sums.address()).bytes())
                .isGreaterThanOrEqualTo(OneRank.TOKENS * ROW_BYTES);
          }
        });
  }

  @Test
  void aHookLaunchesTheSecondHalfOfALowLatencyDispatch() {
    OneRank.run(
        rank -> {
          LowLatencyDispatch dispatch =
              rank.buffer.lowLatencyDispatch(
                  rank.batch.x, rank.batch.routing, rank.lowLatencyDispatching(true));
          Launch send = last();
          dispatch.hook().receive();
          Launch receive = last();
          for (Launch each : List.of(send, receive)) {
            assertThat(each.kernel()).isEqualTo(FakeKernels.LOW_LATENCY + "dispatch_bf16");
            assertThat(each.stream()).isEqualTo(rank.stream.handle());
            assertThat(each.get(LowLatencyField.X)).isEqualTo(rank.batch.x.address());
            assertThat(each.get(LowLatencyField.ROWS)).isEqualTo(dispatch.x().address());
          }
          assertThat(send.get(LowLatencyField.PHASES)).isEqualTo(1);
          assertThat(receive.get(LowLatencyField.PHASES)).isEqualTo(2);
        });
  }

  @Test
  void aLowLatencyCombineReadsTheRecordOfItsDispatch() {
    OneRank.run(
        rank -> {
          LowLatencyDispatch dispatch =
              rank.buffer.lowLatencyDispatch(
                  rank.batch.x, rank.batch.routing, rank.lowLatencyDispatching(false));
          Launch dispatched = last();
          Tensor sums =
              rank.buffer
                  .lowLatencyCombine(
                      dispatch.x(),
                      rank.batch.routing,
                      dispatch.handle(),
                      rank.lowLatencyCombining())
                  .x();
          Launch launch = last();
          assertThat(launch.kernel()).startsWith(FakeKernels.LOW_LATENCY + "combine");
          assertThat(launch.get(LowLatencyField.PHASES)).isEqualTo(3);
          assertThat(launch.get(LowLatencyField.CHOICE_ROWS))
              .isEqualTo(dispatched.get(LowLatencyField.CHOICE_ROWS));
          assertThat(launch.get(LowLatencyField.OUT)).isEqualTo(sums.address());
        });
  }

  @Test
  void fewerSmsAreFewerBlocks() {
    OneRank.run(
        rank -> {
          rank.buffer.setParallelism(7);
          rank.dispatch(Layout.FLAT).handle().close();
          assertThat(last().blocks()).isEqualTo(7);
        });
  }

  private static Launch last() {
    return FakeKernels.launches().getLast();
  }
}
