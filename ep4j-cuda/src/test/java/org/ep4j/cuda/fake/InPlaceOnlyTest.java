package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Tokens;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.cuda.fake.FakeKernels.Launch;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** A buffer that combines in place only has no memory for rows that peers cannot read. */
@OnFakeDriver
class InPlaceOnlyTest {
  private static final int TOKENS = 16;

  private static final HighThroughputConfig LIMITS =
      HighThroughputConfig.builder()
          .maxTokens(TOKENS)
          .layouts(Layout.FLAT)
          .combineInPlace(true)
          .build();

  @Test
  void rowsElsewhereAreRefusedAndRanksWithoutRowsStillNameAPlace() {
    ThreadRanks.run(
        1,
        group -> {
          try (CudaDevice device = CudaDevice.open(0)) {
            device.makeCurrent();
            try (Batch batch = new Batch(device, TOKENS);
                ExpertBuffer buffer =
                    ExpertBuffer.open(group, Batch.config(TOKENS).highThroughput(LIMITS).build())) {
              batch.fill(0, 1);
              Dispatch dispatch =
                  buffer.dispatch(
                      Layout.FLAT, Tokens.of(batch.x), batch.routing, DispatchOptions.DEFAULT);
              long place = last().get("rows_offset");
              try (DispatchHandle handle = dispatch.handle()) {
                int before = FakeKernels.launches().size();
                assertThatThrownBy(() -> buffer.combine(batch.x, handle))
                    .isInstanceOf(InvalidArgumentException.class)
                    .hasMessageStartingWith(ErrorCode.ROWS_NOT_IN_REGION.id());
                assertThat(FakeKernels.launches()).as("nothing is sent").hasSize(before);
                buffer.combine(dispatch.combineInput(DType.BF16), handle);
                assertThat(last().get("rows_place")).isEqualTo(place);
              }
              Tensor none = Tensor.ofDevice(0, 0, DType.BF16, 0, Batch.HIDDEN);
              Tensor ids = Tensor.ofDevice(0, 0, DType.INT64, 0, 2);
              Dispatch empty =
                  buffer.dispatch(
                      Layout.FLAT, Tokens.of(none), Routing.of(ids), DispatchOptions.DEFAULT);
              try (DispatchHandle handle = empty.handle()) {
                buffer.combine(none, handle);
                assertThat(last().get("rows_place")).isEqualTo(place);
              }
            }
          }
        });
  }

  private static Launch last() {
    List<Launch> launches = FakeKernels.launches();
    return launches.getLast();
  }
}
