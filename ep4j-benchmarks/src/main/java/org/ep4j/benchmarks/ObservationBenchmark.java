package org.ep4j.benchmarks;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import jdk.jfr.Recording;
import org.ep4j.observe.ObservationLog;
import org.ep4j.observe.OperationEvent;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * What an operation pays for being observed: its event, a wait for each other rank with the reading
 * of the clock that an engine adds to it, its rows, and its share of the windows.
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@State(Scope.Thread)
@Fork(1)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
public class ObservationBenchmark {
  private static final int EXPERTS = 32;

  /** No flight recording, one with the event's own threshold, or one of all operations. */
  @Param({"none", "threshold", "every"})
  public String recording = "none";

  /** Ranks of the buffer. */
  @Param({"2", "8"})
  public int ranks;

  private ObservationLog log = new ObservationLog(0, 1, new int[0]);
  private final OperationEvent event = new OperationEvent();
  private Recording recorder = new Recording();
  private long number;

  /** Used by JMH. */
  public ObservationBenchmark() {}

  /** Starts the recording. */
  @Setup(Level.Trial)
  public void start() {
    int[] experts = new int[EXPERTS];
    for (int e = 0; e < EXPERTS; e++) {
      experts[e] = e;
    }
    log = new ObservationLog(0, ranks, experts);
    if (!recording.equals("none")) {
      recorder = new Recording();
      recorder
          .enable(OperationEvent.class)
          .withThreshold(Duration.ofMillis(recording.equals("every") ? 0 : 10));
      recorder.start();
    }
  }

  /** Ends it. */
  @TearDown(Level.Trial)
  public void end() {
    recorder.close();
  }

  /** One operation. */
  @Benchmark
  public long operation() {
    event.begin();
    long start = System.nanoTime();
    for (int peer = 1; peer < ranks; peer++) {
      log.waited(peer, System.nanoTime() - start);
    }
    log.received(128, 14_336);
    event.ended(log, 0, "dispatch", ++number);
    log.operationEnded();
    return number;
  }
}
