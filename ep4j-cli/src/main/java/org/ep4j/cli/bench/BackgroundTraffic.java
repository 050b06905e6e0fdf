package org.ep4j.cli.bench;

import java.time.Duration;
import java.util.Arrays;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BackendName;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.nccl.NcclAllReduce;
import org.jspecify.annotations.Nullable;

/**
 * Repeated NCCL all-reduces on a separate stream and thread during a measurement. All ranks must
 * enqueue the same number, or the last all-reduces never end. Therefore the ranks agree on the
 * highest number at the end, and enqueue the rest.
 */
final class BackgroundTraffic implements AutoCloseable {
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  private static final Duration PARTING = Duration.ofSeconds(2);

  /** 64 MiB, the size of a gradient bucket. */
  private static final long FLOATS = 16 << 20;

  /** Maximum number of enqueued all-reduces that have not ended. */
  private static final int AHEAD = 4;

  /** All-reduces that are timed without other work. */
  private static final int FIRST = 50;

  private final RankContext context;
  private final CudaDevice device;
  private final CudaStream stream;
  private final NcclAllReduce reduce;
  private final CudaEvent[] ends = new CudaEvent[AHEAD];
  private final Thread driver;

  /** Milliseconds of an all-reduce without other work. */
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
    // NCCL connects on the first call.
    enqueue();
    alone = alone();
    start = System.nanoTime();
    before = enqueued;
    driver = Thread.ofPlatform().daemon().name("ep4j-bench-beside").unstarted(this::drive);
    driver.start();
  }

  /** The device that the engine assigns to this rank. */
  private static int ordinal(RankContext context) {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(128)
            .topK(1)
            .experts(context.group().size())
            .highThroughput(1)
            .engine(EngineName.CUDA)
            .backend(BackendName.DIRECT)
            .build();
    try (ExpertBuffer buffer = ExpertBuffer.open(context.group(), config)) {
      return buffer.deviceOrdinal().orElseThrow();
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

  /** Name of the traffic. */
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

  /** Stops the driver; whether it ends within the limit. */
  private boolean ends(Duration limit) {
    stopping = true;
    try {
      return driver.join(limit);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /** Stops the traffic on all ranks and reports it; collective. */
  String stop() {
    if (!ends(TIMEOUT)) {
      throw new Ep4jException(
          ErrorCode.BACKGROUND_TRAFFIC_STUCK,
          "an all-reduce of NCCL did not end within " + TIMEOUT.toSeconds() + " s");
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
    return "%d all-reduces of %d MiB in the background: %.3f ms each, without other work %.3f ms%n"
        .formatted(max - before, FLOATS * Float.BYTES >> 20, seconds * 1e3 / (max - before), alone);
  }

  /**
   * Without {@link #stop} the ranks may have enqueued different numbers; then NCCL aborts the rest.
   */
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
