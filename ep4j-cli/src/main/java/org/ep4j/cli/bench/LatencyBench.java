package org.ep4j.cli.bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.bench.StartSignal;
import org.ep4j.bench.Timings;
import org.ep4j.cuda.driver.CaptureMode;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaGraph;
import org.ep4j.cuda.driver.CudaGraphExec;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.probe.StreamLatch;

/**
 * Times low-latency operations on GPUs. Chains: operations back to back in a stream, as calls and
 * as a graph; a sample is the period of an operation, with a common start of all ranks. Phases: the
 * sending half alone, and the receiving half after all ranks have sent.
 */
final class LatencyBench implements AutoCloseable {
  /** Operations of a chain, a multiple of all buffer rotations. */
  private static final int CHAIN = 24;

  private static final int MAX_HALVES = 300;
  private static final Duration HELD = Duration.ofNanos(100_000);
  private static final IterationPlan.Budget BUDGET =
      new IterationPlan.Budget(100, 1000, 200_000_000L, 700_000_000L);

  /** The shortest hold. */
  private static final Duration SHORTEST = Duration.ofNanos(1);

  /** Data that a timed operation moves between ranks. */
  private enum Moved {
    ROWS,
    RETURNED,
    BOTH,
    NOTHING
  }

  /** The i-th operation of a chain. */
  @FunctionalInterface
  private interface ChainStep {
    /** Enqueues the operation. */
    void enqueue(int i);
  }

  private final LatencyWork work;
  private final Payload payload;

  /** Format of sent rows, for tables. */
  private final String sentAs;

  private final String returnedAs;
  private final int sms;
  private final LowLatencyDispatchOptions options;
  private final StartSignal start;
  private final CudaEvent before;
  private final CudaEvent after;

  /** Holds the stream until a half is completely enqueued. */
  private final StreamLatch latch;

  private final List<LatencyResult> results = new ArrayList<>();
  private long[] deviceNanos = {};
  private long[] hostNanos = {};

  /** What ran before the latest times. */
  private WarmUp warm = WarmUp.NONE;

  /**
   * @param sms SMs that the buffer is set to, 0 = chosen by the engine
   */
  LatencyBench(LatencyWork work, Payload payload, int sms) {
    this.work = work;
    this.payload = payload;
    sentAs = BenchSettings.word(payload);
    returnedAs = work.settings.options().returnedWord();
    this.sms = sms;
    options = work.dispatching(payload);
    start = new StartSignal(work.context.agreement());
    CudaDevice device = work.device;
    before = CudaEvent.createTimed(device);
    after = CudaEvent.createTimed(device);
    latch = StreamLatch.of(device);
  }

  /** Times all operations. */
  List<LatencyResult> measure() {
    int sets = work.sets();
    chains("ll_dispatch", sentAs, i -> work.dispatch(i % sets, options), Moved.ROWS);
    LowLatencyHandle handle = work.dispatch(0, options).handle();
    chains("ll_combine", returnedAs, _ -> work.combine(0, handle), Moved.RETURNED);
    chains(
        "ll_pair",
        sentAs,
        i -> work.combine(i % sets, work.dispatch(i % sets, options).handle()),
        Moved.BOTH);
    if (work.settings.options().hook()) {
      phases();
    }
    return results;
  }

  /** A chain as calls, then as a graph. */
  private void chains(String operation, String rows, ChainStep step, Moved moved) {
    CudaStream stream = work.stream;
    step.enqueue(0);
    step.enqueue(1);
    work.settle();
    spend(
        () -> {
          for (int i = 0; i < CHAIN; i++) {
            step.enqueue(i);
          }
        });
    add(operation, rows, "calls", CHAIN, moved);
    stream.beginCapture(CaptureMode.THREAD_LOCAL);
    for (int i = 0; i < CHAIN; i++) {
      step.enqueue(i);
    }
    try (CudaGraph graph = stream.endCapture();
        CudaGraphExec exec = graph.instantiate()) {
      exec.upload(stream);
      work.settle();
      spend(() -> exec.launch(stream));
      add(operation, rows, "graph", CHAIN, moved);
      work.settle();
    }
  }

  private void spend(Runnable chain) {
    warm = work.settings.plan().spend(BUDGET, work.context.agreement(), (_, n) -> run(n, chain));
  }

  private void run(int count, Runnable chain) {
    deviceNanos = new long[count];
    hostNanos = new long[count];
    for (int i = 0; i < count; i++) {
      start.await();
      time(i, chain);
    }
  }

  private void time(int i, Runnable enqueue) {
    before.record(work.stream);
    long begin = System.nanoTime();
    enqueue.run();
    hostNanos[i] = System.nanoTime() - begin;
    after.record(work.stream);
    after.synchronize();
    deviceNanos[i] = (long) (after.millisSince(before) * 1e6);
  }

  /**
   * Times the sending and receiving halves of a dispatch and of a combine, each alone on the GPU,
   * and an empty kernel of one thread, which shows the overhead of the measurement.
   */
  private void phases() {
    warm = WarmUp.NONE;
    int count = Math.min(MAX_HALVES, deviceNanos.length);
    long[][] halves = new long[5][count];
    deviceNanos = new long[1];
    hostNanos = new long[1];
    for (int i = 0; i < count; i++) {
      LowLatencyDispatch[] dispatch = new LowLatencyDispatch[1];
      halves[0][i] = half(() -> dispatch[0] = work.send(0, options));
      halves[1][i] = half(() -> dispatch[0].hook().receive());
      LowLatencyCombine[] combine = new LowLatencyCombine[1];
      LowLatencyHandle handle = dispatch[0].handle();
      halves[2][i] = half(() -> combine[0] = work.sendBack(0, handle));
      halves[3][i] = half(() -> combine[0].hook().receive());
      halves[4][i] = half(() -> latch.hold(work.stream, SHORTEST));
    }
    String[] names = {
      "ll_dispatch send", "ll_dispatch receive", "ll_combine send", "ll_combine receive", "nothing"
    };
    Moved[] moved = {Moved.ROWS, Moved.ROWS, Moved.RETURNED, Moved.RETURNED, Moved.NOTHING};
    for (int h = 0; h < halves.length; h++) {
      deviceNanos = halves[h];
      hostNanos = new long[count];
      add(names[h], h < 2 ? sentAs : returnedAs, "alone", 1, moved[h]);
    }
  }

  /** Times a half after all ranks have ended the earlier work. */
  private long half(Runnable enqueue) {
    start.await();
    latch.hold(work.stream, HELD);
    time(0, enqueue);
    return deviceNanos[0];
  }

  /** Adds the times as a result. */
  private void add(String operation, String rows, String how, int chain, Moved moved) {
    boolean once = work.settings.options().returnsOnce();
    double remote =
        bytes(moved, work.once.meanRemote(), (once ? work.once : work.each).meanRemote());
    double internode =
        bytes(moved, work.internodeOnce, once ? work.internodeOnce : work.internodePerRow);
    Result result =
        new Result(
                operation,
                rows,
                timings(deviceNanos, chain),
                (work.settings.options().rankMajor() ? work.once : work.each).mean(),
                remote,
                remote,
                Double.NaN)
            .after(warm);
    results.add(
        new LatencyResult(
            result,
            how,
            work.settings.lowLatencyTokens(),
            sms,
            timings(hostNanos, chain),
            internode,
            null));
  }

  /** Bytes of the sent and returned rows. */
  private double bytes(Moved moved, double rows, double returned) {
    double sent = rows * payload.dispatchBytes(work.settings.hidden());
    double back = returned * work.settings.options().returnedBytes(work.settings.hidden());
    return switch (moved) {
      case ROWS -> sent;
      case RETURNED -> back;
      case BOTH -> sent + back;
      case NOTHING -> 0;
    };
  }

  private Timings timings(long[] nanos, int chain) {
    Timings all = Timings.longestOf(work.context.agreement().numbers(nanos));
    double[] periods = all.micros().clone();
    for (int i = 0; i < periods.length; i++) {
      periods[i] /= chain;
    }
    return new Timings(periods);
  }

  @Override
  public void close() {
    latch.close();
    after.close();
    before.close();
  }
}
