package org.ep4j.cuda.fake;

import java.time.Duration;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.RowFormat;

/** One rank on the fake driver: its buffer, a stream of the caller, and tokens in device memory. */
final class OneRank implements AutoCloseable {
  static final int TOKENS = 16;

  /** What a test does with the rank. */
  interface Body {
    void run(OneRank rank) throws Exception;
  }

  private final ResourceStack owned = new ResourceStack();
  final CudaDevice device;
  final ExpertBuffer buffer;
  final CudaStream stream;
  final Batch batch;
  final Tokens tokens;

  /** Runs on the stream of the caller. */
  final Execution onStream;

  private OneRank(Group group, BufferConfig config) {
    boolean complete = false;
    try {
      device = owned.own(CudaDevice.open(group.rank() % CudaDevice.count()));
      device.makeCurrent();
      batch = owned.own(new Batch(device, TOKENS));
      batch.fill(group.rank(), 1);
      stream = owned.own(CudaStream.create(device));
      buffer = owned.own(ExpertBuffer.open(group, config));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
    tokens = Tokens.of(batch.x);
    onStream = Execution.on(new DeviceStream(stream.handle()));
  }

  /** Runs {@code body} on rank 0 of two, and {@code other} on the other one. */
  static void runBesideAnother(Body body, Body other) {
    ThreadRanks.run(
        2,
        group -> {
          try (OneRank rank = new OneRank(group, config())) {
            (group.rank() == 0 ? body : other).run(rank);
            group.barrier(Duration.ofSeconds(30));
          }
        });
  }

  /** Runs {@code body} on the only rank of a world. */
  static void run(Body body) {
    run(config(), body);
  }

  /** The same with a buffer of another configuration for {@link #TOKENS} tokens. */
  static void run(BufferConfig config, Body body) {
    ThreadRanks.run(
        1,
        group -> {
          try (OneRank rank = new OneRank(group, config)) {
            body.run(rank);
          }
        });
  }

  /** A buffer for all operations. */
  static ExpertBuffer openBuffer(Group group) {
    return ExpertBuffer.open(group, config());
  }

  private static BufferConfig config() {
    return Batch.config(TOKENS).lowLatency(TOKENS).build();
  }

  /** A dispatch that a graph may hold. */
  Dispatch dispatch(Layout layout) {
    return buffer.dispatch(layout, tokens, batch.routing, dispatching());
  }

  DispatchOptions dispatching() {
    return DispatchOptions.builder().sizing(Sizing.atMost(TOKENS)).execution(onStream).build();
  }

  CombineOptions combining() {
    return CombineOptions.builder().execution(onStream).build();
  }

  LowLatencyDispatchOptions lowLatencyDispatching(boolean hook) {
    return LowLatencyDispatchOptions.builder()
        .format(RowFormat.BF16)
        .returnHook(hook)
        .execution(onStream)
        .build();
  }

  LowLatencyCombineOptions lowLatencyCombining() {
    return LowLatencyCombineOptions.builder().execution(onStream).build();
  }

  @Override
  public void close() {
    owned.close();
  }
}
