package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import org.ep4j.BufferSizes.Part;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.cuda.fake.FakeKernels.Launch;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Combines in the order of experts between nodes: what they launch, need and refuse. */
@OnFakeDriver
class InternodeOrderTest {
  private static final int TOKENS = 16;
  private static final Duration LIMIT = Duration.ofSeconds(30);
  private static final CombineOptions BY_EXPERTS =
      CombineOptions.builder().order(CombineOrder.EXPERT).applyWeights(true).build();

  private static BufferConfig config(String wire, boolean inPlace, Layout... layouts) {
    return Batch.config()
        .highThroughput(
            HighThroughputConfig.builder()
                .maxTokens(TOKENS)
                .layouts(layouts)
                .combineInPlace(inPlace)
                .build())
        .ranksPerNode(1)
        .wire(wire)
        .build();
  }

  /** What a test does on each rank with rows of experts. */
  private interface Body {
    void run(ExpertBuffer buffer, Dispatch received, DispatchHandle handle) throws Exception;
  }

  private static void onTwoNodes(BufferConfig config, Body body) {
    ThreadRanks.run(
        2,
        group -> {
          try (CudaDevice device = CudaDevice.open(group.rank() % CudaDevice.count())) {
            device.makeCurrent();
            try (Batch batch = new Batch(device, TOKENS);
                ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
              batch.fill(group.rank(), 1);
              DispatchOptions options =
                  DispatchOptions.builder().sizing(Sizing.atMost(4 * TOKENS)).build();
              Dispatch received =
                  buffer.dispatch(Layout.EXPERT_MAJOR, Tokens.of(batch.x), batch.routing, options);
              group.barrier(LIMIT);
              try (DispatchHandle handle = received.handle()) {
                // The list of launches is read while no other rank calls the driver.
                synchronized (InternodeOrderTest.class) {
                  body.run(buffer, received, handle);
                }
              }
              group.barrier(LIMIT);
            }
          }
        });
  }

  private static Launch last(int rank) {
    List<Launch> launches = FakeKernels.launches();
    return launches.stream().filter(each -> each.get("rank") == rank).toList().getLast();
  }

  @ParameterizedTest
  @ValueSource(strings = {"staged", "tcp"})
  void rowsAreReadWhereTheyLie(String wire) {
    onTwoNodes(
        config(wire, true, Layout.FLAT, Layout.EXPERT_MAJOR),
        (buffer, received, handle) -> {
          Launch dispatched = last(buffer.rank());
          Tensor y = received.combineInput(DType.BF16);

          buffer.combine(y, handle, BY_EXPERTS);

          Launch combined = last(buffer.rank());
          assertThat(combined.kernel()).isEqualTo(FakeKernels.INTERNODE_BY_EXPERTS_BF16);
          assertThat(combined.get("rows_place")).isEqualTo(dispatched.get("rows_offset"));
          assertThat(combined.get("internode_entries"))
              .isNotZero()
              .isEqualTo(dispatched.get("internode_entries"));
          for (String name : List.of("entries", "kept_ids", "kept_weights")) {
            assertThat(combined.get(name)).as(name).isEqualTo(dispatched.get(name));
          }
          assertThat(combined.get("columns")).isEqualTo(Batch.HIDDEN);
        });
  }

  /** Every rank must know it from the configuration: a rail keeps where rows lie. */
  @Test
  void rowsInPlaceThatNoConfigurationDeclaredAreRefused() {
    onTwoNodes(
        config("staged", false, Layout.FLAT, Layout.EXPERT_MAJOR),
        (buffer, received, handle) -> {
          assertThat(last(buffer.rank()).get("internode_entries")).isZero();
          assertThatThrownBy(() -> buffer.combine(received.x(), handle, BY_EXPERTS))
              .hasMessageStartingWith(ErrorCode.CUDA_ORDERED_ROWS.id());
        });
  }

  @Test
  void rowsElsewhereAreRefused() {
    onTwoNodes(
        config("staged", true, Layout.FLAT, Layout.EXPERT_MAJOR),
        (buffer, received, handle) ->
            assertThatThrownBy(
                    () -> buffer.combine(received.combineInput(DType.FP32), handle, BY_EXPERTS))
                .hasMessageStartingWith(ErrorCode.CUDA_ORDERED_ROWS.id()));
  }

  @Test
  void onlyHandlesOfSuchBuffersKeepWhereRowsLie() {
    long without = handleBytes(config("staged", false, Layout.FLAT, Layout.EXPERT_MAJOR));
    long declared = handleBytes(config("staged", true, Layout.FLAT, Layout.EXPERT_MAJOR));
    BufferConfig oneNode =
        config("staged", true, Layout.FLAT, Layout.EXPERT_MAJOR).toBuilder()
            .ranksPerNode(2)
            .build();
    assertThat(declared - without).as("entries of one partner").isEqualTo(TOKENS * 4L * Long.BYTES);
    assertThat(handleBytes(oneNode)).isEqualTo(without);
  }

  private static long handleBytes(BufferConfig config) {
    return ExpertBuffer.sizes(config, 2).parts().stream()
        .filter(part -> part.name().equals("a handle: rows of EXPERT_MAJOR"))
        .mapToLong(Part::bytes)
        .sum();
  }

  /** The handle takes this memory at its first dispatch. */
  @Test
  void theHandleTakesTheMemoryThatSizesNames() {
    BufferConfig config = config("staged", true, Layout.EXPERT_MAJOR);
    onTwoNodes(
        config,
        (buffer, _, _) ->
            assertThat(FakeDriver.memory(last(buffer.rank()).get("entries")).bytes())
                .isEqualTo(handleBytes(config)));
  }
}
