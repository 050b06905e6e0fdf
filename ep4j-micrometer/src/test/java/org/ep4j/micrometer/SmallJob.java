package org.ep4j.micrometer;

import java.time.Duration;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;

/** Buffers and operations of a job with 8 experts: 4 tokens a rank, each for 2 experts. */
final class SmallJob {
  static final int EXPERTS = 8;
  private static final int TOKENS = 4;
  private static final int HIDDEN = 128;

  private static final LowLatencyDispatchOptions BF16 =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();

  private SmallJob() {}

  static BufferConfig config(Duration timeout) {
    return BufferConfig.builder()
        .engine(EngineName.HOST)
        .hidden(HIDDEN)
        .topK(2)
        .experts(EXPERTS)
        .highThroughput(TOKENS)
        .lowLatency(TOKENS)
        .timeout(timeout)
        .build();
  }

  /** A dispatch and a combine; three quarters of the choices are experts of rank 0. */
  static void step(ExpertBuffer buffer) {
    FlatDispatch received = buffer.dispatch(rows(), routing());
    buffer.combine(received.x(), received.handle());
  }

  /** A dispatch that returns before the others have begun theirs. */
  static Event begin(ExpertBuffer buffer) {
    DispatchOptions options = DispatchOptions.builder().execution(Execution.ASYNCHRONOUS).build();
    return buffer.dispatch(rows(), routing(), options).event();
  }

  static void lowLatencyStep(ExpertBuffer buffer) {
    LowLatencyDispatch received = buffer.lowLatencyDispatch(rows(), routing(), BF16);
    buffer.lowLatencyCombine(
        received.x(), routing(), received.handle(), LowLatencyCombineOptions.DEFAULT);
  }

  private static Tensor rows() {
    return Tensor.fromFloats(new float[TOKENS * HIDDEN], DType.BF16, TOKENS, HIDDEN);
  }

  private static Routing routing() {
    float[] weights = {.5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f};
    return Routing.of(new int[] {0, 1, 0, 2, 0, 4, 1, 5}, weights, 2);
  }
}
