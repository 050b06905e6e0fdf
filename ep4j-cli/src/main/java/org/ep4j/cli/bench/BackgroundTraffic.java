package org.ep4j.cli.bench;

import java.time.Duration;
import java.util.Arrays;
import org.ep4j.BufferConfig;
import org.ep4j.ExpertBuffer;
import org.ep4j.Routing;
import org.ep4j.Tensor;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.nccl.NcclAllReduce;
import org.jspecify.annotations.Nullable;

/**
 * All-reduces of NCCL on a stream and a thread of their own, again and again, while something else
 * is measured. All ranks must enqueue as many as each other, or the last ones never end: so at the
 * end they agree on the highest number, and catch up.
 */
final class BackgroundTraffic implements AutoCloseable {
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  private static final Duration PARTING = Duration.ofSeconds(2);

  /** 64 MiB: a gradient bucket. */
  private static final long FLOATS = 16 << 20;

  /** All-reduces that the GPU has not begun. */
  private static final int AHEAD = 4;

  /** All-reduces that are timed alone. */
  private static final int FIRST = 50;

  private final RankContext context;
  private final CudaDevice device;
  private final CudaStream stream;
  private final NcclAllReduce reduce;
  private final CudaEvent[] ends = new CudaEvent[AHEAD];
  private final Thread driver;

  /** What one takes while nothing else runs, in milliseconds. */
  private final double alone;

  private final long start;
  private final long before;
  private volatile boolean stopping;
  private volatile @Nullable RuntimeException failure;
  private long enqueued;

  BackgroundTraffic(RankContext context) {
    this.context = context;
    context.at("starting NCCL");
    device = CudaDevice.open(ordinal(context));
    reduce = NcclAllReduce.open(context.group(), device, FLOATS, TIMEOUT);
    stream = CudaStream.create(device);
    Arrays.setAll(ends, i -> CudaEvent.create(device));
    // NCCL connects now.
    enqueue();
    alone = alone();
    start = System.nanoTime();
    before = enqueued;
    driver = Thread.ofPlatform().daemon().name("ep4j-bench-beside").unstarted(this::drive);
    driver.start();
  }

  /** The device that the engine gives to this rank. */
  private static int ordinal(RankContext context) {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(128)
            .topK(1)
            .experts(context.group().size())
            .maxTokens(1)
            .engine("cuda")
            .backend("direct")
            .build();
    try (ExpertBuffer buffer = ExpertBuffer.open(context.group(), config)) {
      Routing anywhere = Routing.of(Tensor.of(new long[] {0}, 1, 1));
      return buffer.dispatchLayout(anywhere).tokenInRank().device();
    }
  }

  private double alone() {
    stream.synchronize();
    context.agreement().barrier();
    long begin = System.nanoTime();
    for (int i = 0; i < FIRST; i++) {
      enqueue();
    }
    stream.synchronize();
    double millis = (System.nanoTime() - begin) / 1e6 / FIRST;
    context.agreement().barrier();
    return millis;
  }

  /** What runs beside. */
  String name() {
    return "all-reduce, NCCL " + reduce.version();
  }

  private void enqueue() {
    CudaEvent end = ends[(int) (enqueued % AHEAD)];
    if (enqueued >= AHEAD) {
      end.synchronize();
    }
    reduce.enqueue(stream);
    end.record(stream);
    enqueued++;
  }

  private void drive() {
    try {
      device.makeCurrent();
      while (!stopping) {
        enqueue();
      }
    } catch (RuntimeException e) {
      failure = e;
    }
  }

  /** Whether the driver ends within some time. */
  private boolean ends(Duration limit) {
    stopping = true;
    try {
      return driver.join(limit);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /** Ends it on all ranks; collective. Says how many there were. */
  String stop() {
    if (!ends(TIMEOUT)) {
      throw new IllegalStateException("an all-reduce of NCCL does not end");
    }
    RuntimeException thrown = failure;
    if (thrown != null) {
      throw thrown;
    }
    double seconds = (System.nanoTime() - start) / 1e9;
    long max = context.agreement().max(enqueued);
    device.makeCurrent();
    while (enqueued < max) {
      enqueue();
    }
    stream.synchronize();
    return "%d all-reduces of %d MiB beside it: one in %.3f ms, alone %.3f ms%n"
        .formatted(max - before, FLOATS * Float.BYTES >> 20, seconds * 1e3 / (max - before), alone);
  }

  /** Without {@link #stop} the ranks may not have enqueued as many: then NCCL ends them. */
  @Override
  public void close() {
    boolean ignored = ends(PARTING);
    reduce.close();
    for (CudaEvent end : ends) {
      end.close();
    }
    stream.close();
    device.close();
  }
}
