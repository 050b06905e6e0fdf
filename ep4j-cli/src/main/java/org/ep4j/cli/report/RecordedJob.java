package org.ep4j.cli.report;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import jdk.jfr.consumer.RecordedEvent;
import org.ep4j.bench.Timings;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.error.ErrorCode;

/**
 * What recordings say of a job. Times are microseconds.
 *
 * @param operations in the order of their starts
 * @param leftOut operations beyond those
 * @param counts all recorded operations of each rank, with those left out
 * @param waits time that a rank (first key) has waited for another in all recorded operations
 * @param windows totals of the windows of operations, by rank
 * @param windowWaits as {@code waits}, in all operations of these windows
 * @param incidents everything else, in the order of time
 */
record RecordedJob(
    List<RecordedJob.Operation> operations,
    long leftOut,
    Map<Integer, Long> counts,
    Map<Integer, Map<Integer, Double>> waits,
    Map<Integer, RecordedJob.Windows> windows,
    Map<Integer, Map<Integer, Double>> windowWaits,
    List<Incident> incidents) {
  /** Operations that a page keeps in memory. */
  private static final int MAX_OPERATIONS = 1_000_000;

  private static final int MAX_RANKS = 1 << 20;

  /**
   * The JDK computes the times of each file anew: those of one event differ by about a microsecond.
   * Between the end of a recording and the start of another, milliseconds pass.
   */
  private static final Duration CLOCK = Duration.ofNanos(10_000);

  /**
   * An operation of a rank.
   *
   * @param kind what the rank called
   * @param start since 1970
   */
  record Operation(
      int rank, String kind, double start, double micros, double waited, long rows, long bytes) {}

  /**
   * The recorded windows of a rank together.
   *
   * @param operations in all windows
   * @param waited time that they have waited for other ranks
   */
  record Windows(long windows, long operations, double micros, double waited, long rows) {
    private Windows plus(Windows more) {
      return new Windows(
          windows + more.windows,
          operations + more.operations,
          micros + more.micros,
          waited + more.waited,
          rows + more.rows);
    }

    /** Share of their time that the operations have waited for other ranks, at most 1. */
    double waitedShare() {
      return share(waited, micros);
    }
  }

  private static double share(double part, double total) {
    return total == 0 ? 0 : Math.min(1, part / total);
  }

  /** The ranks that have recorded operations. */
  TreeSet<Integer> ranks() {
    return new TreeSet<>(counts.keySet());
  }

  /** The operations by kind. */
  Map<String, List<Operation>> byKind() {
    Map<String, List<Operation>> kinds = new TreeMap<>();
    for (Operation operation : operations) {
      kinds.computeIfAbsent(operation.kind, _ -> new ArrayList<>()).add(operation);
    }
    return kinds;
  }

  /** The durations of operations. */
  static Timings timings(List<Operation> operations) {
    return new Timings(operations.stream().mapToDouble(Operation::micros).toArray());
  }

  /** Share of their time that operations have waited for other ranks, at most 1. */
  static double waitedShare(List<Operation> operations) {
    double total = operations.stream().mapToDouble(Operation::micros).sum();
    double waited = operations.stream().mapToDouble(Operation::waited).sum();
    return share(waited, total);
  }

  /**
   * The waits of an operation, in the mean of the recorded operations of the rank; of those in
   * windows if no single ones are recorded.
   */
  List<Wait> meanWaits() {
    if (operations.isEmpty()) {
      Map<Integer, Long> inWindows = new HashMap<>();
      windows.forEach((rank, all) -> inWindows.put(rank, all.operations));
      return meanWaits(windowWaits, inWindows);
    }
    return meanWaits(waits, counts);
  }

  /** Without ranks of which the recording was cut between an operation and its waits. */
  private static List<Wait> meanWaits(
      Map<Integer, Map<Integer, Double>> waits, Map<Integer, Long> counts) {
    List<Wait> means = new ArrayList<>();
    waits.forEach(
        (rank, row) -> {
          long count = counts.getOrDefault(rank, 0L);
          if (count > 0) {
            row.forEach((peer, total) -> means.add(new Wait(rank, peer, total / count)));
          }
        });
    return means;
  }

  /**
   * A wait.
   *
   * @param rank the rank that waited
   * @param peer the rank that it waited for
   */
  record Wait(int rank, int peer, double micros) {}

  /** Collects the events of several files. */
  static final class Builder {
    private final int maxOperations;
    private final List<Operation> operations = new ArrayList<>();
    private final Map<Integer, Long> counts = new TreeMap<>();
    private final List<Incident> incidents = new ArrayList<>();
    private final Map<Integer, Map<Integer, Double>> waits = new TreeMap<>();
    private final Map<Integer, Windows> windows = new TreeMap<>();
    private final Map<Integer, Map<Integer, Double>> windowWaits = new TreeMap<>();

    /** Of recordings without {@code org.ep4j.Wait}: the longest wait of each operation. */
    private final Map<Integer, Map<Integer, Double>> longestWaits = new TreeMap<>();

    /** Times of the events of each rank in the earlier files. */
    private final Map<Integer, List<Span>> earlier = new HashMap<>();

    private final Map<Integer, Span> current = new HashMap<>();
    private String file = "";
    private long leftOut;

    Builder() {
      this(MAX_OPERATIONS);
    }

    /**
     * A builder.
     *
     * @param maxOperations that the job keeps; all are counted
     */
    Builder(int maxOperations) {
      this.maxOperations = maxOperations;
    }

    /**
     * The ends of the first and the last event of a rank in a file. An event that began in the time
     * of the recording before is one of the recording in which it ended.
     */
    private record Span(String file, Instant first, Instant last) {
      boolean overlaps(Span other) {
        return first.isBefore(other.last.plus(CLOCK)) && other.first.isBefore(last.plus(CLOCK));
      }
    }

    /** Begins a file. */
    void begin(String name) {
      end();
      file = name;
    }

    /** Adds an event; returns whether it is one of those that a page shows. */
    boolean add(RecordedEvent event) {
      switch (event.getEventType().getName()) {
        case "org.ep4j.Operation" -> operation(event);
        case "org.ep4j.Wait" ->
            add(waits, rank(event, "rank"), rank(event, "peer"), duration(event, "waited"));
        case "org.ep4j.Window" ->
            windows.merge(
                rank(event, "rank"),
                new Windows(
                    1,
                    Math.max(1, event.getInt("operations")),
                    duration(event, "elapsed"),
                    duration(event, "waited"),
                    event.getLong("rows")),
                Windows::plus);
        case "org.ep4j.WindowWait" ->
            add(windowWaits, rank(event, "rank"), rank(event, "peer"), duration(event, "waited"));
        default -> {
          Incident incident = Incident.of(event);
          if (incident == null) {
            return false;
          }
          incidents.add(incident);
        }
      }
      if (event.hasField("rank")) {
        Instant end = event.getEndTime();
        current.merge(event.getInt("rank"), new Span(file, end, end), Builder::around);
      }
      return true;
    }

    private void operation(RecordedEvent event) {
      int rank = rank(event, "rank");
      if (event.getInt("longestWaitFor") >= 0) {
        add(longestWaits, rank, rank(event, "longestWaitFor"), duration(event, "longestWait"));
      }
      counts.merge(rank, 1L, Long::sum);
      if (operations.size() == maxOperations) {
        leftOut++;
        return;
      }
      operations.add(
          new Operation(
              rank,
              Fields.printable(String.valueOf(event.getString("operation"))),
              Incident.micros(event.getStartTime()),
              event.getDuration().toNanos() / 1e3,
              duration(event, "waited"),
              event.getLong("rows"),
              event.getLong("bytes")));
    }

    private static Span around(Span a, Span b) {
      return new Span(
          a.file,
          a.first.isBefore(b.first) ? a.first : b.first,
          a.last.isAfter(b.last) ? a.last : b.last);
    }

    private static void add(
        Map<Integer, Map<Integer, Double>> matrix, int rank, int peer, double micros) {
      matrix.computeIfAbsent(rank, _ -> new TreeMap<>()).merge(peer, micros, Double::sum);
    }

    private static int rank(RecordedEvent event, String field) {
      int rank = event.getInt(field);
      if (rank < 0 || rank >= MAX_RANKS) {
        throw new IllegalArgumentException(field + " = " + rank);
      }
      return rank;
    }

    private static double duration(RecordedEvent event, String field) {
      Duration duration = event.getDuration(field);
      return Math.max(0, duration.toNanos() / 1e3);
    }

    /** Ends a file: of a rank, files hold different times. */
    private void end() {
      current.forEach(
          (rank, span) -> {
            for (Span other : earlier.getOrDefault(rank, List.of())) {
              if (other.overlaps(span)) {
                throw new CommandFailure(
                    ErrorCode.REPORT_SAME_RUN,
                    ExitCodes.FAILED,
                    "%s and %s hold the same time of rank %d: name one recording of each rank and time"
                        .formatted(other.file, span.file, rank));
              }
            }
            earlier.computeIfAbsent(rank, _ -> new ArrayList<>()).add(span);
          });
      current.clear();
    }

    RecordedJob build() {
      end();
      operations.sort(Comparator.comparingDouble(Operation::start));
      incidents.sort(Comparator.comparingDouble(Incident::start));
      return new RecordedJob(
          List.copyOf(operations),
          leftOut,
          counts,
          waits.isEmpty() ? longestWaits : waits,
          windows,
          windowWaits,
          List.copyOf(incidents));
    }
  }
}
