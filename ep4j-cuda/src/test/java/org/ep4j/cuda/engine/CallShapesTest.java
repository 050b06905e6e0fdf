package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.function.Supplier;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Calls of other shapes than the buffer's that must fail. The engine kit runs those that work. */
class CallShapesTest {
  private static final int TOKENS = 2;
  private static final int EXPERTS = 4;

  private interface Body {
    void run(ExpertBuffer buffer, Batch batch);
  }

  private static void onBothRanks(Body body) {
    Gpu.require(1);
    ThreadRanks.run(
        2,
        group -> {
          try (CudaDevice device = CudaDevice.open(group.rank() % CudaDevice.count());
              ExpertBuffer buffer =
                  ExpertBuffer.open(
                      group,
                      Batch.config(TOKENS)
                          .lowLatency(TOKENS)
                          .timeout(Duration.ofSeconds(5))
                          .build());
              Batch batch = new Batch(device, TOKENS)) {
            batch.fill(group.rank(), 1);
            body.run(buffer, batch);
          }
        });
  }

  /** A routing for calls of {@link #EXPERTS} experts, with {@code last} as the last id. */
  private static Routing routing(long last) {
    long[] ids = {0, 1, 2, 3, 3, 2, 1, last};
    return Routing.of(ids, new float[ids.length], Batch.TOP_K);
  }

  private static LowLatencyDispatchOptions.Builder lowLatency() {
    return LowLatencyDispatchOptions.builder().format(RowFormat.BF16);
  }

  @Test
  void ranksWithRowsOfDifferentLengthsAreNamedWithThem() {
    onBothRanks(
        (buffer, batch) -> {
          int hidden = Batch.HIDDEN / (1 + buffer.rank());
          Tensor x =
              Tensor.ofDevice(batch.x.address(), batch.x.device(), DType.BF16, TOKENS, hidden);
          assertThatThrownBy(
                  () -> buffer.lowLatencyDispatch(x, batch.routing, lowLatency().build()))
              .isInstanceOf(ConfigurationMismatchException.class)
              .hasMessageStartingWith(ErrorCode.LOW_LATENCY_KIND_MISMATCH.id())
              .hasMessageContaining("BF16, rows of 512")
              .hasMessageContaining("BF16, rows of 256");
          buffer.reset();
          buffer.lowLatencyDispatch(batch.x, batch.routing, lowLatency().build());
        });
  }

  @Test
  void idsBehindTheExpertsOfACallAreReportedWithTheirNumber() {
    onBothRanks(
        (buffer, batch) -> {
          DispatchOptions options = DispatchOptions.builder().experts(EXPERTS).build();
          reported(
              buffer, last -> buffer.dispatch(Tokens.of(batch.x), routing(last), options).handle());
          LowLatencyDispatchOptions lowLatency = lowLatency().experts(EXPERTS).build();
          reported(buffer, last -> buffer.lowLatencyDispatch(batch.x, routing(last), lowLatency));
          if (buffer.rank() == 0) {
            refused(() -> buffer.dispatchLayout(routing(4), EXPERTS));
          }
        });
  }

  private interface Call {
    Object with(long last);
  }

  private static void reported(ExpertBuffer buffer, Call call) {
    if (buffer.rank() == 0) {
      refused(() -> call.with(4));
    } else {
      call.with(0);
    }
    buffer.barrier();
  }

  private static void refused(Supplier<Object> call) {
    assertThatThrownBy(call::get)
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.NO_SUCH_EXPERT.id())
        .hasMessageContaining("topkIdx[1, 3] = 4; it must be -1..3 (4 experts)");
  }
}
