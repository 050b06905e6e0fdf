package org.ep4j.observe;

import java.util.List;
import java.util.function.Supplier;
import jdk.jfr.FlightRecorder;
import org.jspecify.annotations.Nullable;

/**
 * Records the windows of a buffer as {@link WindowEvent} and {@link WindowWaitEvent}, until it is
 * closed. A thread of the flight recorder reads what the buffer has observed, only while a
 * recording runs that has the event; the threads and kernels of the buffer do nothing for it. Any
 * thread may close.
 */
public final class WindowRecorder implements AutoCloseable {
  private final Supplier<RankObservation> observe;
  private final Runnable hook = this::record;

  /** The last window that was recorded. Only threads of the flight recorder. */
  private RankObservation.@Nullable Window last;

  private WindowRecorder(Supplier<RankObservation> observe) {
    this.observe = observe;
  }

  /**
   * Starts to record.
   *
   * @param observe what a rank has observed; called by any thread, also once after {@link #close}
   */
  public static WindowRecorder start(Supplier<RankObservation> observe) {
    WindowRecorder recorder = new WindowRecorder(observe);
    FlightRecorder.addPeriodicEvent(WindowEvent.class, recorder.hook);
    return recorder;
  }

  private synchronized void record() {
    RankObservation seen = observe.get();
    List<RankObservation.Window> windows = seen.windows();
    if (last != null && wasReset(last, windows)) {
      last = null;
    }
    for (RankObservation.Window window : windows) {
      if (last == null || window.number() > last.number()) {
        last = window;
        WindowEvent.record(seen.rank(), window);
        WindowWaitEvent.record(seen.rank(), window);
      }
    }
  }

  /**
   * Whether numbers have begun anew since {@code last}: windows are missing, or another one has its
   * number.
   */
  private static boolean wasReset(
      RankObservation.Window last, List<RankObservation.Window> windows) {
    return windows.isEmpty()
        || windows.getLast().number() < last.number()
        || windows.stream()
            .anyMatch(
                window ->
                    window.number() == last.number()
                        && (window.nanos() != last.nanos() || window.rows() != last.rows()));
  }

  @Override
  public void close() {
    FlightRecorder.removePeriodicEvent(hook);
  }
}
