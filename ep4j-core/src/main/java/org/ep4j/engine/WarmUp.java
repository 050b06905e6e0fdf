package org.ep4j.engine;

import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.execution.Execution;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Runs the operations that a buffer is configured for, with few tokens of zeros, until the JVM has
 * loaded and compiled their code and a device engine has its kernels and its memory.
 */
final class WarmUp {
  /** Rounds after which the host engine's loops are compiled code. */
  private static final int HOST_ROUNDS = 200;

  /** A device engine compiles kernels and allocates memory in the first calls. */
  private static final int DEVICE_ROUNDS = 3;

  private static final int TOKENS = 16;

  private final ExpertBuffer buffer;
  private final BufferConfig config;

  private WarmUp(ExpertBuffer buffer) {
    this.buffer = buffer;
    config = buffer.config();
  }

  /** See {@link ExpertBuffer#warmUp()}. */
  static void run(ExpertBuffer buffer) {
    WarmUp warmUp = new WarmUp(buffer);
    int rounds = buffer.engine().equals(EngineName.HOST) ? HOST_ROUNDS : DEVICE_ROUNDS;
    try (Arena arena = Arena.ofShared()) {
      if (warmUp.config.highThroughput().isPresent()) {
        warmUp.highThroughput(arena, rounds, warmUp.config.highThroughput().get());
      }
      if (warmUp.config.lowLatency().isPresent()) {
        warmUp.lowLatency(arena, rounds, warmUp.config.lowLatency().get());
      }
      // No rank frees tensors that another rank still reads.
      buffer.barrier();
    }
  }

  private void highThroughput(Arena arena, int rounds, HighThroughputConfig part) {
    int tokens = Math.min(TOKENS, part.maxTokens());
    int hidden = config.hidden();
    Tokens x = Tokens.of(Tensor.allocate(arena, part.rowDType(), tokens, hidden));
    DType summed = hidden % 8 == 0 ? DType.BF16 : DType.FP32; // rows are whole units of 16 bytes
    // Where results take the place of received rows, narrow rows make room for none.
    boolean combines =
        summed.bits() <= part.rowDType().bits() || !Limits.combinesInPlaceOnly(config);
    boolean all = ReceiveCapacity.holdsWorstCase(config);
    long room = all ? Long.MAX_VALUE : ReceiveCapacity.rows(config);
    Routing routing = routing(arena, tokens, room / buffer.worldSize());
    for (int i = 0; i < rounds; i++) {
      for (Layout layout : part.layouts()) {
        Dispatch received = buffer.dispatch(layout, x, routing, DispatchOptions.DEFAULT);
        try (DispatchHandle handle = received.handle()) {
          if (combines) {
            buffer.combine(received.combineInput(summed), handle).x();
          }
          buffer.dispatch(layout, x, handle, Execution.SYNCHRONOUS).x();
        }
      }
    }
  }

  private void lowLatency(Arena arena, int rounds, LowLatencyConfig part) {
    int tokens = Math.min(TOKENS, part.maxTokens());
    Tensor x = Tensor.allocate(arena, DType.BF16, tokens, config.hidden());
    Routing routing = routing(arena, tokens, Long.MAX_VALUE);
    LowLatencyCombineOptions inPlace = LowLatencyCombineOptions.builder().zeroCopy(true).build();
    for (int i = 0; i < rounds; i++) {
      LowLatencyDispatch received =
          buffer.lowLatencyDispatch(x, routing, LowLatencyDispatchOptions.DEFAULT);
      Tensor y = buffer.lowLatencyCombineBuffer(received.handle());
      buffer.lowLatencyCombine(y, routing, received.handle(), inPlace).x();
    }
  }

  /** At most {@code room} choices, spread over all experts: every rank sends to every rank. */
  private Routing routing(Arena arena, int tokens, long room) {
    Tensor ids = Tensor.allocate(arena, DType.INT64, tokens, config.topK());
    for (int i = 0; i < tokens * config.topK(); i++) {
      long expert = i < room ? i % config.experts() : -1;
      ids.segment().setAtIndex(ValueLayout.JAVA_LONG, i, expert);
    }
    return Routing.of(ids, Tensor.allocate(arena, DType.FP32, tokens, config.topK()));
  }
}
