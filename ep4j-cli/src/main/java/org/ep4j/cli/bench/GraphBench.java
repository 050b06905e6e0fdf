package org.ep4j.cli.bench;

import java.util.List;
import java.util.Objects;
import org.ep4j.BufferStatistics;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.bench.StartSignal;
import org.ep4j.cuda.driver.CaptureMode;
import org.ep4j.cuda.driver.CudaGraph;
import org.ep4j.cuda.driver.CudaGraphExec;
import org.ep4j.tensor.Tensor;

/**
 * A static dispatch and its combine, captured once and replayed. Before each replay, new rows and a
 * new routing are copied into the input memory of the graph. The results of a replay are compared
 * with the oracle before replays are timed.
 */
final class GraphBench implements AutoCloseable {
  /** Calls before the capture, which create all handles and memory: a capture must not allocate. */
  private static final int CALLS_BEFORE = 10;

  private static final int WARMUPS = 100;
  private static final IterationPlan.Budget BUDGET =
      new IterationPlan.Budget(30, 200, 300_000_000L, 800_000_000L);

  private final DeviceWork work;
  private final StartSignal start;
  private final CallTimer replays;
  private final DeviceInputs place;
  private final CombineOptions combining;
  private final CudaGraphExec exec;
  private final Dispatch dispatch;
  private final Combine combine;

  /** How the rows of the captured combine return. */
  private final String combined;

  GraphBench(DeviceWork work) {
    this.work = work;
    start = new StartSignal(work.context.agreement());
    replays = new CallTimer(work);
    place = work.place();
    combining = work.combining(false);
    BufferStatistics before = work.buffer.statistics();
    Tensor rows = callBefore();
    combined = DeviceResult.combined(before, work.buffer.statistics());
    work.stream.synchronize();
    work.buffer.barrier();
    work.stream.beginCapture(CaptureMode.THREAD_LOCAL);
    InputSet input = place.set();
    dispatch =
        work.buffer.dispatch(work.layout(), input.tokens(), input.routing(), work.dispatching);
    combine = work.buffer.combine(rows, dispatch.handle(), combining);
    try (CudaGraph graph = work.stream.endCapture()) {
      exec = graph.instantiate();
    }
    exec.upload(work.stream);
  }

  /** Calls without a graph; returns the rows of the experts, with the maximum number of rows. */
  private Tensor callBefore() {
    InputSet input = place.set();
    Tensor rows = null;
    for (int i = 0; i < CALLS_BEFORE; i++) {
      Dispatch call =
          work.buffer.dispatch(work.layout(), input.tokens(), input.routing(), work.dispatching);
      if (rows == null) {
        rows = work.expertRows(call, work.dispatching.sizing().maxRows());
      }
      work.buffer.combine(rows, call.handle(), combining);
      call.handle().close();
    }
    return Objects.requireNonNull(rows);
  }

  /** Replays without waiting in between, as a warm-up. */
  void warmUp() {
    verify(0);
    for (int i = 0; i < WARMUPS; i++) {
      exec.launch(work.stream);
    }
    work.stream.synchronize();
    run(0, 2);
  }

  /** Compares the results of a replay for an input set with the oracle. */
  void verify(int set) {
    work.sets.get(set).copyOver(place, work.stream);
    exec.launch(work.stream);
    work.checkDispatch(set, set, dispatch);
    work.checkCombine(set, combine, false);
  }

  /** Times replays with the number of SMs of the capture. */
  List<DeviceResult> measure(double dispatchCeiling, double combineCeiling) {
    WarmUp warm = work.settings.plan().spend(BUDGET, work.context.agreement(), this::run);
    long bytes =
        work.payload.dispatchBytes(work.settings.hidden())
            + work.payload.combineBytes(work.settings.hidden());
    return List.of(
        work.result(
            "dispatch + combine",
            BenchSettings.word(work.payload),
            replays,
            bytes,
            dispatchCeiling + combineCeiling,
            warm,
            combined));
  }

  private void run(int first, int count) {
    replays.expect(count);
    run(first, count, CallTimer::time);
    run(first, count, CallTimer::timeKernels);
  }

  private void run(int first, int count, CallTimer.CallMode mode) {
    for (int i = 0; i < count; i++) {
      work.sets.get((first + i) % work.sets.size()).copyOver(place, work.stream);
      work.stream.synchronize();
      start.await();
      mode.time(replays, i, () -> exec.launch(work.stream));
    }
  }

  @Override
  public void close() {
    exec.close();
    dispatch.handle().close();
    place.close();
    replays.close();
  }
}
