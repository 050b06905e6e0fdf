package org.ep4j.benchmarks;

import java.util.concurrent.TimeUnit;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.group.ThreadRanks;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Opening and closing a buffer for both kinds of operations on all ranks of one JVM, including
 * their threads: the first in a JVM, which also loads the classes, and later ones. A mean over both
 * would have no meaning.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.SingleShotTime)
@OutputTimeUnit(TimeUnit.MILLISECONDS)
@Fork(5)
public class OpenBufferBenchmark {
  private static final BufferConfig CONFIG =
      BufferConfig.builder()
          .hidden(7168)
          .topK(8)
          .experts(256)
          .highThroughput(4096)
          .lowLatency(128)
          .build();

  /** Number of ranks. */
  @Param({"1", "2", "4"})
  public int ranks;

  /** The first open. */
  @Benchmark
  @Warmup(iterations = 0)
  @Measurement(iterations = 1)
  public void first() {
    openAndClose();
  }

  /** Opens after the fifth. */
  @Benchmark
  @Warmup(iterations = 5)
  @Measurement(iterations = 10)
  public void later() {
    openAndClose();
  }

  private void openAndClose() {
    ThreadRanks.run(ranks, group -> ExpertBuffer.open(group, CONFIG).close());
  }
}
