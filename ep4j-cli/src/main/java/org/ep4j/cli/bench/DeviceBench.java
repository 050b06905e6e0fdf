package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.ep4j.BufferStatistics;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.bench.StartSignal;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Dispatches and combines on GPUs as calls on a stream of the caller: checked by the oracle, then
 * timed with a common start of all ranks.
 */
final class DeviceBench implements AutoCloseable {
  private static final int WARMUPS = 2000;
  private static final int CHECKED_WARMUPS = 3;
  private static final IterationPlan.Budget BUDGET =
      new IterationPlan.Budget(30, 200, 300_000_000L, 800_000_000L);

  private final DeviceWork work;
  private final StartSignal start;
  private final CallTimer dispatches;
  private final CallTimer combines;
  private final CallTimer weightedCombines;
  private final CombineOptions combining;
  private final CombineOptions weightedCombining;

  /** The handle of all dispatches in cached mode; else null. */
  private final @Nullable DispatchHandle handle;

  private @Nullable Dispatch last;

  DeviceBench(DeviceWork work) {
    this.work = work;
    start = new StartSignal(work.context.agreement());
    dispatches = new CallTimer(work);
    combines = new CallTimer(work);
    weightedCombines = new CallTimer(work);
    combining = work.combining(false);
    weightedCombining = work.combining(true);
    boolean cached = work.settings.mode() == BenchSettings.Mode.CACHED;
    handle = cached ? dispatchOf(0).handle() : null;
  }

  /** Dispatches the rows of an input set; in cached mode along the routes of the first set. */
  private Dispatch dispatchOf(int set) {
    InputSet input = work.sets.get(set).set();
    DispatchHandle known = handle;
    return known == null
        ? work.buffer.dispatch(work.layout(), input.tokens(), input.routing(), work.dispatching)
        : work.buffer.dispatch(work.layout(), input.tokens(), known, work.again);
  }

  private void done(Dispatch dispatch) {
    if (handle == null) {
      dispatch.handle().close();
    }
  }

  /** Runs all calls often enough for the JIT compiler. */
  void warmUp() {
    for (int i = 0; i < CHECKED_WARMUPS; i++) {
      verify(0);
    }
    for (int i = 0; i < WARMUPS; i++) {
      Dispatch dispatch = dispatchOf(0);
      Tensor rows = dispatch.combineInput(work.payload.sums());
      work.buffer.combine(rows, dispatch.handle(), combining);
      done(dispatch);
    }
    work.stream.synchronize();
    run(0, CHECKED_WARMUPS);
  }

  /** Compares all results of an input set with the oracle. */
  void verify(int set) {
    int routing = handle == null ? set : 0;
    Dispatch dispatch = dispatchOf(set);
    work.checkDispatch(set, routing, dispatch);
    Tensor rows = work.expertRows(dispatch, dispatch.handle().rows());
    for (boolean weighted : new boolean[] {false, true}) {
      Combine combine =
          work.buffer.combine(rows, dispatch.handle(), weighted ? weightedCombining : combining);
      work.checkCombine(routing, combine, weighted);
    }
    done(dispatch);
  }

  /**
   * Times calls with the number of SMs that the buffer has.
   *
   * @param dispatchCeiling microseconds of bare pushes of the same rows
   * @param combineCeiling the same for the combine
   */
  List<DeviceResult> measure(double dispatchCeiling, double combineCeiling) {
    BufferStatistics before = work.buffer.statistics();
    WarmUp warm = work.settings.plan().spend(BUDGET, work.context.agreement(), this::run);
    String combined = DeviceResult.combined(before, work.buffer.statistics());
    String sums = BenchSettings.word(work.payload.sums());
    long sent = work.payload.dispatchBytes(work.settings.hidden());
    long back = work.payload.combineBytes(work.settings.hidden());
    List<DeviceResult> results = new ArrayList<>();
    results.add(
        work.result(
            "dispatch",
            BenchSettings.word(work.payload),
            dispatches,
            sent,
            dispatchCeiling,
            warm,
            ""));
    results.add(work.result("combine", sums, combines, back, combineCeiling, warm, combined));
    results.add(
        work.result(
            "combine + weights", sums, weightedCombines, back, combineCeiling, warm, combined));
    return results;
  }

  private void run(int first, int count) {
    dispatches.expect(count);
    combines.expect(count);
    weightedCombines.expect(count);
    // Separate runs, so that neither timing affects the other.
    run(first, count, CallTimer::time);
    run(first, count, CallTimer::timeKernels);
  }

  private void run(int first, int count, CallTimer.CallMode mode) {
    for (int i = 0; i < count; i++) {
      int set = (first + i) % work.sets.size();
      start.await();
      mode.time(dispatches, i, () -> last = dispatchOf(set));
      Dispatch dispatch = Objects.requireNonNull(last);
      DispatchHandle handle = dispatch.handle();
      Tensor rows = dispatch.combineInput(work.payload.sums());
      start.await();
      mode.time(combines, i, () -> work.buffer.combine(rows, handle, combining));
      start.await();
      mode.time(weightedCombines, i, () -> work.buffer.combine(rows, handle, weightedCombining));
      done(dispatch);
    }
  }

  @Override
  public void close() {
    if (handle != null) {
      handle.close();
    }
    weightedCombines.close();
    combines.close();
    dispatches.close();
  }
}
