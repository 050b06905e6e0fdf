package org.ep4j.cli.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.group.Group;
import org.ep4j.observe.OperationEvent;
import org.ep4j.observe.WaitEvent;
import org.jspecify.annotations.Nullable;

/**
 * Records the operations of one rank while a bench times them, by the flight recorder. Warm-up and
 * checks are not recorded. Ranks that are threads record one another, too, and read their own.
 */
final class TraceRecorder implements AutoCloseable {
  /** Operations of all ranks in a file: more are left out. */
  static final int MAX_OPERATIONS = 100_000;

  /** Waits of an operation: the longest ones. */
  static final int MAX_WAITS = 4;

  private static final Duration TIMEOUT = Duration.ofMinutes(5);

  private final int rank;

  /** Null: records nothing. */
  private final @Nullable Recording recording;

  private final int maxOperations;

  private TraceRecorder(int rank, @Nullable Recording recording, int maxOperations) {
    this.rank = rank;
    this.recording = recording;
    this.maxOperations = maxOperations;
  }

  /**
   * A recorder of a rank.
   *
   * @param maxOperations of all ranks; 0: records nothing
   */
  static TraceRecorder of(Group group, int maxOperations) {
    if (maxOperations == 0) {
      return new TraceRecorder(group.rank(), null, 0);
    }
    Recording recording = new Recording();
    recording.setName("ep4j bench --trace");
    recording.enable(MeasuredEvent.class);
    recording.start();
    return new TraceRecorder(group.rank(), recording, maxOperations / group.size());
  }

  /**
   * Runs timed iterations. Repeated ones of the same name replace the earlier ones.
   *
   * @param part what they time
   */
  void timed(String part, int count, Runnable iterations) {
    if (recording == null) {
      iterations.run();
      return;
    }
    recording.enable(OperationEvent.class).withThreshold(Duration.ZERO);
    recording.enable(WaitEvent.class);
    MeasuredEvent event = new MeasuredEvent();
    event.begin();
    try {
      iterations.run();
    } finally {
      event.end();
      event.rank = rank;
      event.part = part;
      event.iterations = count;
      event.commit();
      recording.disable(OperationEvent.class);
      recording.disable(WaitEvent.class);
    }
  }

  /** The recorded operations of all ranks, by rank; collective. Null without a recording. */
  @Nullable List<List<TracedPart>> gather(Group group) {
    if (recording == null) {
      return null;
    }
    byte[] mine = TracedPart.encode(parts(recording));
    int size = Group.MAX_CONTRIBUTION;
    long rounds = new CommandAgreement(group).max(Math.ceilDiv(mine.length, size));
    byte[][] all = new byte[group.size()][0];
    for (int round = 0; round < rounds; round++) {
      int from = Math.min(mine.length, round * size);
      int to = Math.min(mine.length, from + size);
      byte[][] pieces = group.allGather(Arrays.copyOfRange(mine, from, to), TIMEOUT);
      for (int r = 0; r < all.length; r++) {
        byte[] joined = Arrays.copyOf(all[r], all[r].length + pieces[r].length);
        System.arraycopy(pieces[r], 0, joined, all[r].length, pieces[r].length);
        all[r] = joined;
      }
    }
    return Arrays.stream(all).map(TracedPart::decode).toList();
  }

  private List<TracedPart> parts(Recording ended) {
    try {
      Path file = Files.createTempFile("ep4j-trace", ".jfr");
      try {
        ended.stop();
        ended.dump(file);
        return parts(RecordingFile.readAllEvents(file));
      } finally {
        Files.delete(file);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private List<TracedPart> parts(List<RecordedEvent> all) {
    List<RecordedEvent> own =
        all.stream()
            .filter(event -> event.hasField("rank") && event.getInt("rank") == rank)
            .sorted(Comparator.comparing(RecordedEvent::getStartTime))
            .toList();
    Map<String, RecordedEvent> measured = new LinkedHashMap<>();
    for (RecordedEvent event : named(own, MeasuredEvent.class)) {
      measured.put(event.getString("part"), event);
    }
    List<RecordedEvent> operations = named(own, OperationEvent.class);
    List<RecordedEvent> waits = named(own, WaitEvent.class);
    List<TracedPart> parts = new ArrayList<>();
    for (RecordedEvent event : measured.values()) {
      parts.add(part(event, operations, waits, maxOperations / measured.size()));
    }
    return parts;
  }

  private static List<RecordedEvent> named(List<RecordedEvent> events, Class<?> type) {
    String name = type.getAnnotation(jdk.jfr.Name.class).value();
    return events.stream().filter(event -> event.getEventType().getName().equals(name)).toList();
  }

  private static TracedPart part(
      RecordedEvent measured,
      List<RecordedEvent> operations,
      List<RecordedEvent> waits,
      int limit) {
    // Within the iterations of a part, one buffer is used, and numbers are not repeated.
    Map<String, List<TracedPart.Wait>> waitsOf = new HashMap<>();
    for (RecordedEvent wait : waits) {
      if (contains(measured, wait)) {
        waitsOf
            .computeIfAbsent(key(wait), _ -> new ArrayList<>())
            .add(new TracedPart.Wait(wait.getInt("peer"), nanos(wait.getDuration("waited"))));
      }
    }
    List<TracedPart.Operation> kept = new ArrayList<>();
    int leftOut = 0;
    for (RecordedEvent operation : operations) {
      if (!contains(measured, operation)) {
        continue;
      }
      if (kept.size() == limit) {
        leftOut++;
        continue;
      }
      List<TracedPart.Wait> longest =
          waitsOf.getOrDefault(key(operation), List.of()).stream()
              .sorted(Comparator.comparingLong(TracedPart.Wait::nanos).reversed())
              .limit(MAX_WAITS)
              .toList();
      kept.add(
          new TracedPart.Operation(
              operation.getString("operation"),
              operation.getLong("number"),
              nanos(operation.getStartTime()),
              nanos(operation.getDuration()),
              operation.getLong("rows"),
              operation.getLong("bytes"),
              nanos(operation.getDuration("waited")),
              longest));
    }
    return new TracedPart(
        measured.getString("part"),
        measured.getInt("iterations"),
        nanos(measured.getStartTime()),
        nanos(measured.getDuration()),
        leftOut,
        kept);
  }

  private static String key(RecordedEvent event) {
    return event.getString("operation") + " " + event.getLong("number");
  }

  private static boolean contains(RecordedEvent measured, RecordedEvent event) {
    return !event.getStartTime().isBefore(measured.getStartTime())
        && !event.getEndTime().isAfter(measured.getEndTime());
  }

  private static long nanos(Instant time) {
    return time.getEpochSecond() * 1_000_000_000L + time.getNano();
  }

  private static long nanos(Duration duration) {
    return duration.toNanos();
  }

  @Override
  public void close() {
    if (recording != null) {
      recording.close();
    }
  }
}
