package org.ep4j.cli.report;

import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import jdk.jfr.Recording;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.observe.AbortEvent;
import org.ep4j.observe.CompileEvent;
import org.ep4j.observe.LaneLossEvent;
import org.ep4j.observe.MaskEvent;
import org.ep4j.observe.ObservationLog;
import org.ep4j.observe.OperationEvent;
import org.ep4j.observe.PathLossEvent;
import org.ep4j.observe.RankObservation;
import org.ep4j.observe.ReadmitEvent;
import org.ep4j.observe.ResetEvent;
import org.ep4j.observe.TimeoutEvent;
import org.ep4j.observe.TimeoutLog;
import org.ep4j.observe.WindowRecorder;

/** Recordings of jobs that never were, for tests of pages. */
final class SampleRecordings {
  private SampleRecordings() {}

  /** What a recording holds. */
  interface Events {
    void commit() throws Exception;
  }

  /** Records events into a file. */
  static Path record(Path file, Events events) throws Exception {
    return record(file, true, events);
  }

  /**
   * Records events into a file.
   *
   * @param waits whether the waits between two ranks are events
   */
  static Path record(Path file, boolean waits, Events events) throws Exception {
    try (Recording recording = new Recording()) {
      recording.enable(OperationEvent.class).withThreshold(Duration.ZERO);
      if (waits) {
        recording.enable("org.ep4j.Wait");
      } else {
        recording.disable("org.ep4j.Wait");
      }
      recording.start();
      events.commit();
      recording.stop();
      recording.dump(file);
    }
    return file;
  }

  /**
   * Commits an operation of a rank.
   *
   * @param waitsMicros what it waits for each rank
   */
  static void operation(int rank, String kind, long number, long... waitsMicros) {
    ObservationLog log = new ObservationLog(rank, waitsMicros.length, new int[] {rank});
    OperationEvent event = new OperationEvent();
    event.begin();
    log.received(100, 1024);
    for (int peer = 0; peer < waitsMicros.length; peer++) {
      log.waited(peer, 1000 * waitsMicros[peer]);
    }
    event.ended(log, rank, kind, number);
  }

  /** Commits one event of each other kind, of rank 0. */
  static void failures(String text) {
    TimeoutEvent.record(0, new PeerTimeoutException("combine", "rows", 7, 2, 1, 0, 1234, ""));
    AbortEvent.sent(0, 2, false, "is silent");
    AbortEvent.received(0, 1, 2, true, "is dead");
    MaskEvent.record(0, 2, true, text);
    MaskEvent.record(0, 2, false, "by cleanMask()");
    LaneLossEvent.record(0, 3, "tcp", 1, text);
    PathLossEvent.record(0, 3, "mlx5_0/1", "mlx5_1/1", 2, text);
    Boolean _ =
        new ResetEvent().record(0, () -> 9, () -> new boolean[] {false, false, true}, () -> true);
    assertThatIllegalStateException()
        .isThrownBy(
            () ->
                new ReadmitEvent()
                    .record(
                        0,
                        () -> 10,
                        () -> new boolean[3],
                        () -> {
                          throw new IllegalStateException("not all ranks");
                        }));
    CompileEvent compile = new CompileEvent();
    compile.begin();
    compile.ended("dispatch.cu", "sm_90a", false, 4096);
  }

  /** Of rank 0, a window for each of these waits for rank 1. */
  static Path windows(Path file, long... waitsMicros) throws Exception {
    List<RankObservation.Window> windows = new ArrayList<>();
    for (int i = 0; i < waitsMicros.length; i++) {
      long[] waits = {0, 1000 * waitsMicros[i]};
      windows.add(new RankObservation.Window(i, 10_000_000, 50, waits));
    }
    RankObservation seen =
        RankObservation.of(2, windows, new int[] {0}, new long[] {0}, new TimeoutLog(0));
    try (Recording recording = new Recording()) {
      recording.enable("org.ep4j.Window").with("period", "everyChunk");
      try (WindowRecorder _ = WindowRecorder.start(() -> seen)) {
        recording.start();
        recording.stop();
      }
      recording.dump(file);
    }
    return file;
  }

  /** Three ranks, of which rank 2 is late, in a file each. */
  static Path[] ofThreeRanks(Path directory) throws Exception {
    return new Path[] {
      record(
          directory.resolve("rank0.jfr"),
          () -> {
            operation(0, "dispatch", 1, 0, 100, 3000);
            operation(0, "combine", 2, 0, 0, 1000);
            failures("silent");
          }),
      record(
          directory.resolve("rank1.jfr"),
          () -> {
            operation(1, "dispatch", 1, 200, 0, 2500);
            operation(1, "combine", 2, 0, 0, 1500);
          }),
      record(
          directory.resolve("rank2.jfr"),
          () -> {
            operation(2, "dispatch", 1, 10, 30, 0);
            operation(2, "combine", 2, 10, 10, 0);
          })
    };
  }
}
