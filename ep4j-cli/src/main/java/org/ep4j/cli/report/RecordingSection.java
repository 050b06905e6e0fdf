package org.ep4j.cli.report;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.bench.Timings;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.cli.text.Wrapped;

/** What a page shows of recordings of the flight recorder. */
final class RecordingSection {
  /** More rows of a table are not shown. */
  private static final int MAX_ROWS = 400;

  private final RecordedJob job;
  private final String files;

  /**
   * A section.
   *
   * @param files their names, for a heading
   */
  RecordingSection(RecordedJob job, String files) {
    this.job = job;
    this.files = files;
  }

  /** The section. */
  String html(Charts charts) {
    StringBuilder html = new StringBuilder("<section>\n<h2>Recorded operations</h2>\n");
    html.append("<p class=\"note\">").append(Html.text(files + ": " + subtitle())).append("</p>\n");
    if (!job.operations().isEmpty()) {
      html.append(operations(charts)).append(waits(charts)).append(ranks());
    }
    if (!job.windows().isEmpty()) {
      html.append(windows());
      html.append(job.operations().isEmpty() ? waits(charts) : "");
    }
    return html.append(incidents()).append("</section>\n").toString();
  }

  private String subtitle() {
    if (job.operations().isEmpty()) {
      return job.windows().isEmpty()
          ? "no operations"
          : "windows of operations of %d rank%s"
              .formatted(job.windows().size(), job.windows().size() == 1 ? "" : "s");
    }
    String more =
        job.leftOut() == 0 ? "" : ", and %d more that are not shown".formatted(job.leftOut());
    int ranks = job.ranks().size();
    return "%d operations of %d rank%s%s, %s, since %s UTC"
        .formatted(
            job.operations().size(),
            ranks,
            ranks == 1 ? "" : "s",
            more,
            time(last() - first()),
            start());
  }

  private double first() {
    return job.operations().getFirst().start();
  }

  private double last() {
    return job.operations().stream()
        .mapToDouble(operation -> operation.start() + operation.micros())
        .max()
        .orElse(first());
  }

  private String start() {
    return Instant.ofEpochMilli((long) (first() / 1e3))
        .truncatedTo(ChronoUnit.SECONDS)
        .toString()
        .replace('T', ' ')
        .replace("Z", "");
  }

  private static String time(double micros) {
    return RunSection.micros(micros);
  }

  private static final List<String> COLUMNS =
      List.of("operation", "n", "median", "p99", "longest", "waited, %", "received rows", "bytes");

  private static List<String> cells(String name, List<RecordedJob.Operation> operations) {
    if (operations.isEmpty()) {
      // Of a rank whose operations are all left out.
      return List.of(name, "0", "–", "–", "–", "–", "–", "–");
    }
    Timings timings = RecordedJob.timings(operations);
    return List.of(
        name,
        String.valueOf(operations.size()),
        Units.micros(timings.median()),
        Units.micros(timings.p99()),
        Units.micros(timings.max()),
        Units.fixed(100 * RecordedJob.waitedShare(operations), 0),
        String.valueOf(operations.stream().mapToLong(RecordedJob.Operation::rows).sum()),
        Units.bytes(operations.stream().mapToLong(RecordedJob.Operation::bytes).sum()));
  }

  private static final List<String> WINDOW_COLUMNS =
      List.of("rank", "windows", "operations", "an operation", "waited, %", "received rows");

  private List<List<String>> windowRows() {
    List<List<String>> rows = new ArrayList<>();
    job.windows()
        .forEach(
            (rank, all) ->
                rows.add(
                    List.of(
                        "rank " + rank,
                        String.valueOf(all.windows()),
                        String.valueOf(all.operations()),
                        Units.micros(all.micros() / all.operations()),
                        Units.fixed(100 * all.waitedShare(), 0),
                        String.valueOf(all.rows()))));
    return rows;
  }

  private String windows() {
    List<List<String>> rows = windowRows();
    return "<h3>Windows of operations</h3>\n"
        + Html.table(WINDOW_COLUMNS, pretty(rows.subList(0, shown(rows))), "numbers")
        + rest(rows)
        + "<p class=\"note\">Once a second, or as the settings of org.ep4j.Window say, each rank"
        + " records its last windows of operations, of any length. An operation: mean time from"
        + " the end of one to the end of the next.</p>\n";
  }

  private String operations(Charts charts) {
    List<List<String>> rows = new ArrayList<>();
    job.byKind().forEach((kind, operations) -> rows.add(cells(kind, operations)));
    return "<h3>Operations</h3>\n"
        + Html.table(COLUMNS, pretty(rows), "numbers")
        + "<p class=\"note\">Operations that were shorter than the threshold of the recording are"
        + " not in it: 10 ms unless org.ep4j.Operation#threshold was set. Waited: share of their"
        + " time in which they waited for other ranks.</p>\n"
        + charts.durations(job)
        + "<h3>Operations over time</h3>\n<p>A point is an operation of a rank. Of many, each"
        + " stretch of time shows the shortest and the longest.</p>\n"
        + charts.timeline(job, first());
  }

  private static List<List<String>> pretty(List<List<String>> rows) {
    return rows.stream().map(row -> row.stream().map(Html::cell).toList()).toList();
  }

  private String waits(Charts charts) {
    String chart = charts.waits(job.meanWaits());
    return "<h3>Waits between ranks</h3>\n"
        + "<p>Time that the rank of a row has waited for the rank of a column, in the mean of its"
        + " recorded operations. A strong column is a rank for which all wait; if its own row is"
        + " faint, that rank is slow itself.</p>\n"
        + (chart.isEmpty() ? "<p>No operation waited.</p>\n" : chart);
  }

  private String ranks() {
    List<List<String>> rows = new ArrayList<>();
    Map<Integer, List<RecordedJob.Operation>> byRank = new LinkedHashMap<>();
    job.ranks().forEach(rank -> byRank.put(rank, new ArrayList<>()));
    for (RecordedJob.Operation operation : job.operations()) {
      byRank.computeIfAbsent(operation.rank(), _ -> new ArrayList<>()).add(operation);
    }
    byRank.forEach((rank, operations) -> rows.add(cells("rank " + rank, operations)));
    List<String> columns = new ArrayList<>(COLUMNS);
    columns.set(0, "rank");
    return "<details><summary>Operations of each rank</summary>\n"
        + Html.table(columns, pretty(rows.subList(0, shown(rows))), "numbers")
        + rest(rows)
        + "</details>\n";
  }

  private String incidents() {
    List<List<String>> rows = new ArrayList<>();
    double from = job.operations().isEmpty() ? 0 : first();
    for (Incident incident : job.incidents()) {
      from = from == 0 ? incident.start() : from;
      rows.add(
          List.of(
              Units.fixed((incident.start() - from) / 1e6, 3),
              incident.rankText(),
              incident.kind(),
              incident.text()));
    }
    return rows.isEmpty()
        ? "<h3>Events</h3>\n<p>Nothing but operations was recorded.</p>\n"
        : "<h3>Events</h3>\n"
            + Html.table(
                List.of("seconds", "rank", "event", "what happened"),
                rows.subList(0, shown(rows)),
                "events")
            + rest(rows)
            + "<p class=\"note\">Seconds count from the first recorded operation; negative ones"
            + " lie before it.</p>\n";
  }

  private static int shown(List<?> rows) {
    return Math.min(MAX_ROWS, rows.size());
  }

  private static String rest(List<?> rows) {
    return rows.size() <= MAX_ROWS
        ? ""
        : "<p class=\"note\">%d more are not shown.</p>\n".formatted(rows.size() - MAX_ROWS);
  }

  /** The section for a terminal. */
  String text(Style style) {
    StringBuilder text = new StringBuilder(style.bold("recorded")).append("  ");
    text.append(subtitle().replace(" µs", " us")).append("\n\n");
    if (!job.operations().isEmpty()) {
      Table table = new Table(COLUMNS.toArray(String[]::new));
      job.byKind()
          .forEach((kind, operations) -> table.row(cells(kind, operations).toArray(String[]::new)));
      text.append(table.render(style)).append('\n');
    }
    if (!job.windows().isEmpty()) {
      Table table = new Table(WINDOW_COLUMNS.toArray(String[]::new));
      windowRows().forEach(row -> table.row(row.toArray(String[]::new)));
      text.append(table.render(style)).append('\n');
    }
    if (!job.operations().isEmpty() || !job.windows().isEmpty()) {
      text.append(longestWait()).append('\n');
    }
    Map<String, Integer> counts = new LinkedHashMap<>();
    job.incidents().forEach(incident -> counts.merge(incident.kind(), 1, Integer::sum));
    List<String> words = new ArrayList<>();
    counts.forEach((kind, count) -> words.add(kind + " " + count));
    String all = "events: " + (words.isEmpty() ? "none" : String.join(", ", words));
    return text.append(Wrapped.lines(all, Table.WIDTH)).append('\n').toString();
  }

  private String longestWait() {
    RecordedJob.Wait longest = new RecordedJob.Wait(0, 0, 0);
    for (RecordedJob.Wait wait : job.meanWaits()) {
      longest = wait.micros() > longest.micros() ? wait : longest;
    }
    return longest.micros() == 0
        ? "no operation waited"
        : "longest wait: rank %d for rank %d, %s an operation"
            .formatted(longest.rank(), longest.peer(), Units.micros(longest.micros()));
  }
}
