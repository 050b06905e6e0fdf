package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.Objects;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.FlatDispatch;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.Tokens;
import org.ep4j.config.Layout;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.cuda.fake.FakeKernels.Launch;
import org.ep4j.error.ErrorCode;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
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
          assertThat(launch.get("x")).isEqualTo(rank.batch.x.address());
          assertThat(launch.get("ids")).isEqualTo(rank.batch.routing.topkIdx().address());
          assertThat(launch.get("tokens")).isEqualTo(OneRank.TOKENS);
          assertThat(launch.get("row_bytes")).isEqualTo(ROW_BYTES);
          assertThat(launch.get("cached")).isZero();
        });
  }

  /** Libraries give empty tensors this address; the rank receives weights of others. */
  @Test
  void emptyWeightsAtAddressZeroAreNotTakenForMissingOnes() {
    OneRank.run(
        rank -> {
          int device = rank.batch.x.device();
          Tensor x = Tensor.ofDevice(0, device, DType.BF16, 0, Batch.HIDDEN);
          Tensor ids = Tensor.ofDevice(0, device, DType.INT64, 0, 2);
          Tensor weights = Tensor.ofDevice(0, device, DType.FP32, 0, 2);
          rank.buffer.dispatch(
              Tokens.of(x), Routing.of(ids, weights), DispatchOptions.builder().build());
          assertThat(last().get("weights")).isNotZero();
        });
  }

  @Test
  void scalesByColumnsBecomeTheRowsThatTheDispatchSends() {
    OneRank.run(
        rank -> {
          long address = rank.batch.x.address();
          int device = rank.batch.x.device();
          Tensor x = Tensor.ofDevice(address, device, DType.FP8_E4M3, OneRank.TOKENS, Batch.HIDDEN);
          long length = OneRank.TOKENS + 3;
          Tensor scales = Tensor.ofDevice(address, device, DType.FP32, 2, length);
          rank.buffer.dispatch(
              Tokens.of(x, scales, ScaleLayout.COLUMN_MAJOR),
              rank.batch.routing,
              DispatchOptions.builder().build());
          List<Launch> launches = FakeKernels.launches();
          Launch rows = launches.get(launches.size() - 2);
          assertThat(rows.kernel()).isEqualTo(FakeKernels.SCALE_ROWS);
          assertThat(rows.stream()).isEqualTo(last().stream());
          assertThat(rows.get("from")).isEqualTo(address);
          assertThat(rows.get("tokens")).isEqualTo(OneRank.TOKENS);
          assertThat(rows.get("columns")).isEqualTo(2);
          assertThat(rows.get("length")).isEqualTo(length);
          assertThat(rows.get("element_bytes")).isEqualTo(4);
          assertThat(last().get("scales")).isEqualTo(rows.get("to"));
          assertThat(last().get("scale_bytes")).isEqualTo(8);
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
          assertThat(dispatch.x().address()).isEqualTo(region.start() + launch.get("rows_offset"));
          for (String offset :
              List.of("ready_offset", "counts_offset", "ids_offset", "sources_offset")) {
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
          FakeDriver.Range device = FakeDriver.memory(launch.get("routes"));
          FakeDriver.Range host = FakeDriver.memory(launch.get("totals"));
          assertThat(device.bytes()).isPositive();
          assertThat(host.bytes()).isPositive();
          assertThat(device).isNotEqualTo(host);
          for (String each : List.of("lists", "matrix", "group_rows")) {
            assertThat(FakeDriver.memory(launch.get(each))).as("%s", each).isEqualTo(device);
          }
          for (String each : List.of("rank_offsets", "expert_offsets", "received", "aligned")) {
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
            assertThat(again.get("cached")).isEqualTo(1);
            assertThat(again.get("ids")).isZero();
            assertThat(again.get("routes")).isEqualTo(first.get("routes"));
            assertThat(again.get("receipt.ticket")).isEqualTo(first.get("receipt.ticket") + 1);
            assertThat(again.get("counts_ticket")).isEqualTo(first.get("counts_ticket"));
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
            assertThat(launch.kernel()).isEqualTo(FakeKernels.COMBINE_BF16_PUSH);
            assertThat(launch.blocks()).isEqualTo(rank.buffer.parallelism());
            assertThat(launch.stream()).isEqualTo(rank.stream.handle());
            assertThat(launch.get("y")).isEqualTo(y.address());
            assertThat(launch.get("out")).isEqualTo(sums.address());
            assertThat(launch.get("routes")).isEqualTo(dispatched.get("routes"));
            assertThat(FakeDriver.memory(sums.address()).bytes())
                .isGreaterThanOrEqualTo(OneRank.TOKENS * ROW_BYTES);
          }
        });
  }

  /** Peers pull the rows of a FLAT combine only if they know where the rows lie. */
  @Test
  void aFlatCombineTellsWhereItsRowsAreIfTheyLieInTheRegion() {
    OneRank.run(
        rank -> {
          Dispatch dispatch = rank.dispatch(Layout.FLAT);
          long place = last().get("rows_offset");
          try (DispatchHandle handle = dispatch.handle()) {
            rank.buffer.combine(dispatch.x(), handle, rank.combining());
            Launch inPlace = last();
            rank.buffer.combine(dispatch.combineInput(DType.BF16), handle, rank.combining());
            Launch elsewhere = last();
            assertThat(inPlace.get("rows_place")).isEqualTo(place);
            assertThat(inPlace.kernel()).isEqualTo(FakeKernels.COMBINE_BF16);
            assertThat(inPlace.get("weights_place")).isZero();
            assertThat(elsewhere.get("rows_place")).isZero();
            assertThat(elsewhere.kernel()).isEqualTo(FakeKernels.COMBINE_BF16_PUSH);
          }
          Dispatch grouped = rank.dispatch(Layout.EXPERT_MAJOR);
          try (DispatchHandle handle = grouped.handle()) {
            rank.buffer.combine(grouped.x(), handle, rank.combining());
            assertThat(last().get("rows_place")).as("sums of experts are pushed").isZero();
          }
          assertThat(rank.buffer.statistics().combines()).isEqualTo(3);
          assertThat(rank.buffer.statistics().combinesInPlace()).isOne();
        });
  }

  /** Weights are small, so the rank copies those that peers cannot read. */
  @Test
  void weightsOfRowsThatPeersReadAreInTheRegionToo() {
    OneRank.run(
        rank -> {
          FlatDispatch dispatch = (FlatDispatch) rank.dispatch(Layout.FLAT);
          Launch dispatched = last();
          try (DispatchHandle handle = dispatch.handle()) {
            Tensor received = dispatch.topkWeights();
            rank.buffer.combine(dispatch.x(), handle, weighing(rank, received));
            long inRegion = last().get("weights_place");
            Tensor copied =
                Tensor.ofDevice(
                    dispatch.combineInput(DType.FP32).address(),
                    rank.device.ordinal(),
                    DType.FP32,
                    received.shape());
            rank.buffer.combine(dispatch.x(), handle, weighing(rank, copied));
            Launch launch = last();
            assertThat(inRegion).isEqualTo(dispatched.get("weights_offset"));
            assertThat(launch.get("weights")).isEqualTo(copied.address());
            assertThat(launch.get("weights_place")).isPositive().isNotEqualTo(inRegion);
          }
        });
  }

  private static CombineOptions weighing(OneRank rank, Tensor weights) {
    return rank.combining().toBuilder().topkWeights(weights).build();
  }

  @Test
  void aCombineThatAppliesWeightsReadsThoseOfItsHandle() {
    OneRank.run(
        rank -> {
          Dispatch dispatch = rank.dispatch(Layout.EXPERT_MAJOR);
          Launch dispatched = last();
          try (DispatchHandle handle = dispatch.handle()) {
            assertThat(FakeDriver.memory(dispatched.get("slot_weights")))
                .isEqualTo(FakeDriver.memory(dispatched.get("slot_rows")));
            Tensor y = dispatch.combineInput(DType.BF16);
            rank.buffer.combine(y, handle, rank.combining());
            Launch plain = last();
            CombineOptions applying = rank.combining().toBuilder().applyWeights(true).build();
            rank.buffer.combine(y, handle, applying);
            Launch weighted = last();
            assertThat(plain.get("slot_weights")).isZero();
            assertThat(weighted.get("slot_weights")).isEqualTo(dispatched.get("slot_weights"));
            // A ring has room for the weights of the rows that it lists in any case.
            assertThat(weighted.sharedBytes()).isEqualTo(plain.sharedBytes());
          }
          FakeDriver.forgetCalls();
          Dispatch flat = rank.dispatch(Layout.FLAT);
          CombineOptions applying = rank.combining().toBuilder().applyWeights(true).build();
          assertThatThrownBy(
                  () -> rank.buffer.combine(flat.combineInput(DType.BF16), flat.handle(), applying))
              .hasMessageStartingWith(ErrorCode.OPTION_NOT_FOR_LAYOUT.id());
          assertThat(FakeKernels.launches()).hasSize(1);
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
            assertThat(each.kernel()).isEqualTo(FakeKernels.LOW_LATENCY_DISPATCH_BF16);
            assertThat(each.stream()).isEqualTo(rank.stream.handle());
            assertThat(each.get("x")).isEqualTo(rank.batch.x.address());
            assertThat(each.get("rows")).isEqualTo(dispatch.x().address());
          }
          assertThat(send.get("phases")).isEqualTo(1);
          assertThat(receive.get("phases")).isEqualTo(2);
        });
  }

  @Test
  void aLowLatencyDispatchDeliversWeightsOnRequest() {
    OneRank.run(
        rank -> {
          for (boolean delivers : new boolean[] {false, true}) {
            LowLatencyDispatch dispatch =
                rank.buffer.lowLatencyDispatch(
                    rank.batch.x,
                    rank.batch.routing,
                    rank.lowLatencyDispatching(false).toBuilder().deliverWeights(delivers).build());
            Launch launch = last();
            assertThat(dispatch.hasWeights()).isEqualTo(delivers);
            assertThat(launch.get("kind")).isEqualTo(delivers ? 16 : 0);
            long weights = Objects.requireNonNull(rank.batch.routing.topkWeights()).address();
            assertThat(launch.get("weights")).isEqualTo(delivers ? weights : 0);
            if (delivers) {
              assertThat(dispatch.rowWeights().address()).isEqualTo(launch.get("row_weights"));
            }
          }
        });
  }

  @Test
  void shorterRowsThanTheBuffersAreSentAndSummed() {
    OneRank.run(
        rank -> {
          int hidden = Batch.HIDDEN / 2;
          Tensor x =
              Tensor.ofDevice(
                  rank.batch.x.address(),
                  rank.batch.x.device(),
                  DType.BF16,
                  OneRank.TOKENS,
                  hidden);
          Dispatch dispatch = rank.buffer.dispatch(x, rank.batch.routing);
          assertThat(last().get("row_bytes")).isEqualTo(hidden * 2L);
          assertThat(dispatch.x().size(1)).isEqualTo(hidden);
          try (DispatchHandle handle = dispatch.handle()) {
            Tensor sums = rank.buffer.combine(dispatch.x(), handle).x();
            assertThat(last().get("hidden")).isEqualTo(hidden);
            assertThat(sums.shape()).containsExactly(OneRank.TOKENS, hidden);
          }
        });
  }

  @Test
  void idsOfCallsWithFewerExpertsAreTranslatedFirst() {
    OneRank.run(
        rank -> {
          long ids = rank.batch.routing.topkIdx().address();
          int fewer = rank.buffer.config().experts() / 2;
          DispatchOptions options = DispatchOptions.builder().experts(fewer).build();
          Dispatch dispatch = rank.buffer.dispatch(rank.tokens, rank.batch.routing, options);
          Launch translated = beforeLast();
          assertThat(translated.kernel()).isEqualTo(FakeKernels.EXPERT_IDS);
          assertThat(translated.stream()).isEqualTo(last().stream());
          assertThat(translated.get("ids")).isEqualTo(ids);
          assertThat(translated.get("experts")).isEqualTo(fewer);
          assertThat(translated.get("each")).isEqualTo(fewer);
          assertThat(translated.get("mark")).isZero();
          assertThat(last().get("ids")).isEqualTo(translated.get("to"));
          assertThat(last().get("wide_ids")).isEqualTo(1);
          assertThat(dispatch.counts().size(0)).isEqualTo(fewer);
          dispatch.handle().close();

          LowLatencyDispatch first =
              rank.buffer.lowLatencyDispatch(
                  rank.batch.x,
                  rank.batch.routing,
                  rank.lowLatencyDispatching(false).toBuilder().experts(fewer).build());
          translated = beforeLast();
          assertThat(translated.kernel()).isEqualTo(FakeKernels.EXPERT_IDS);
          assertThat(translated.get("number")).isEqualTo(last().get("own"));
          assertThat(translated.get("mark")).isEqualTo(1L << 62);
          assertThat(last().get("ids")).isEqualTo(translated.get("to"));
          assertThat(first.x().size(0)).isEqualTo(fewer);
          rank.buffer.lowLatencyCombine(
              first.x(), rank.batch.routing, first.handle(), rank.lowLatencyCombining());
          assertThat(beforeLast().kernel()).isEqualTo(FakeKernels.EXPERT_IDS);
          assertThat(beforeLast().get("to"))
              .isEqualTo(last().get("ids"))
              .isNotEqualTo(translated.get("to"));
        });
  }

  private static Launch beforeLast() {
    List<Launch> launches = FakeKernels.launches();
    return launches.get(launches.size() - 2);
  }

  @Test
  void shorterLowLatencyRowsRunKernelsForAnyLength() {
    OneRank.run(
        rank -> {
          Routing routing = rank.batch.routing;
          for (int hidden : new int[] {Batch.HIDDEN, Batch.HIDDEN / 2, Batch.HIDDEN / 4}) {
            Tensor x =
                Tensor.ofDevice(
                    rank.batch.x.address(),
                    rank.batch.x.device(),
                    DType.BF16,
                    OneRank.TOKENS,
                    hidden);
            LowLatencyDispatch dispatch =
                rank.buffer.lowLatencyDispatch(x, routing, rank.lowLatencyDispatching(false));
            assertThat(last().get("hidden")).isEqualTo(hidden);
            assertThat(last().get("row_bytes")).isEqualTo(2L * hidden);
            assertThat(dispatch.x().size(2)).isEqualTo(hidden);
            Tensor region = rank.buffer.lowLatencyCombineBuffer(dispatch.handle());
            assertThat(region.size(2)).isEqualTo(hidden);
            Tensor sums =
                rank.buffer
                    .lowLatencyCombine(
                        dispatch.x(), routing, dispatch.handle(), rank.lowLatencyCombining())
                    .x();
            assertThat(last().get("hidden")).isEqualTo(hidden);
            assertThat(last().get("own")).isNotZero();
            assertThat(sums.shape()).containsExactly(OneRank.TOKENS, hidden);
          }
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
          assertThat(launch.kernel()).isEqualTo(FakeKernels.LOW_LATENCY_COMBINE_BF16);
          assertThat(launch.get("phases")).isEqualTo(3);
          assertThat(launch.get("choice_rows")).isEqualTo(dispatched.get("choice_rows"));
          assertThat(launch.get("out")).isEqualTo(sums.address());
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
