package org.ep4j.cli.report;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.ToDoubleFunction;
import org.ep4j.bench.Timings;

/**
 * The charts of a page: what each shows, as data for the script of the page. All times are
 * microseconds; the script chooses the unit.
 */
public final class Charts {
  /** Points of a chart of iterations: a screen has no more. */
  private static final int MAX_POINTS = 500;

  /** Rows of a heat map: of more ranks, neighbours share a cell. */
  private static final int MAX_CELLS = 64;

  private final List<Map<String, Object>> specs = new ArrayList<>();

  /** No charts yet. */
  public Charts() {}

  /** The data for the script. */
  Map<String, Object> data() {
    return Map.of("charts", specs);
  }

  /** Bars of medians with what lies around them; returns the element for the chart. */
  String times(List<Measured> results) {
    List<Map<String, Object>> rows = new ArrayList<>();
    for (Measured result : results) {
      Map<String, Object> row = row(result.label());
      row.put("low", result.min());
      row.put("median", result.median());
      row.put("high", result.high());
      row.put("ceiling", result.ceiling());
      if (result.samples().length > 0) {
        Timings timings = new Timings(result.samples());
        row.put("q1", timings.quantile(0.25));
        row.put("q3", timings.quantile(0.75));
      }
      rows.add(row);
    }
    return add("times", "Median time of each operation, with its scatter", rows);
  }

  /** Bars of GB/s. */
  String rates(List<Measured> results) {
    List<Map<String, Object>> rows = new ArrayList<>();
    for (Measured result : results) {
      if (result.logicalGbps() > 0) {
        Map<String, Object> row = row(result.label());
        row.put("logical", result.logicalGbps());
        row.put("remote", result.remoteGbps());
        rows.add(row);
      }
    }
    return rows.isEmpty()
        ? ""
        : add("rates", "Received gigabytes a second of each operation", rows);
  }

  /** A chart for each operation of time against SMs or tokens, where a run has several of them. */
  String sweeps(List<Measured> results) {
    return sweep(results, Measured::tokens, ", \\d+ tokens?", "tokens of a rank")
        + sweep(results, Measured::sms, ", \\d+ SMs", "SMs of an operation");
  }

  /**
   * Charts of one sweep.
   *
   * @param value the swept value in labels, as a regular expression
   */
  private String sweep(
      List<Measured> results, ToDoubleFunction<Measured> swept, String value, String axis) {
    Map<String, Map<String, List<Measured>>> charts = new LinkedHashMap<>();
    for (Measured result : results) {
      if (swept.applyAsDouble(result) > 0) {
        // A line has the name of its points without what differs along it.
        String how = result.how().isEmpty() ? "" : ", " + result.how();
        String line = result.label().replaceAll(value, "").replace(how, "");
        charts
            .computeIfAbsent(result.how(), _ -> new LinkedHashMap<>())
            .computeIfAbsent(line, _ -> new ArrayList<>())
            .add(result);
      }
    }
    StringBuilder html = new StringBuilder();
    charts.forEach(
        (how, lines) -> {
          List<Map<String, Object>> rows = new ArrayList<>();
          lines.forEach(
              (label, points) -> {
                if (points.stream().mapToDouble(swept).distinct().count() > 1) {
                  rows.add(line(label, points, swept));
                }
              });
          if (!rows.isEmpty()) {
            String heading = "Time against " + axis + (how.isEmpty() ? "" : ", as " + how);
            html.append("<h4>")
                .append(Html.text(heading))
                .append("</h4>")
                .append(add("lines", heading, rows, Map.of("axis", axis)));
          }
        });
    return html.toString();
  }

  private static Map<String, Object> line(
      String label, List<Measured> points, ToDoubleFunction<Measured> swept) {
    TreeSet<Double> done = new TreeSet<>();
    List<Map<String, Object>> list = new ArrayList<>();
    for (Measured point : points) {
      if (done.add(swept.applyAsDouble(point))) {
        Map<String, Object> one = new LinkedHashMap<>();
        one.put("x", swept.applyAsDouble(point));
        one.put("low", point.min());
        one.put("median", point.median());
        one.put("high", point.high());
        list.add(one);
      }
    }
    Map<String, Object> line = row(label);
    line.put("points", list);
    return line;
  }

  /** A strip for each operation with the time of every iteration. */
  String iterations(List<Measured> results) {
    StringBuilder html = new StringBuilder();
    for (Measured result : results) {
      if (result.samples().length > 1) {
        Map<String, Object> row = row(result.label());
        row.put("points", thinned(result.samples()));
        row.put("median", result.median());
        row.put("count", result.samples().length);
        html.append("<div>")
            .append("<h4>")
            .append(Html.text(result.label()))
            .append("</h4>")
            .append(add("iterations", "Time of each iteration of " + result.label(), List.of(row)))
            .append("</div>");
      }
    }
    return html.toString();
  }

  /** Ratios of medians with their intervals, around no difference. */
  String ratios(RunComparison comparison) {
    List<Map<String, Object>> rows = new ArrayList<>();
    for (RunComparison.Pair pair : comparison.pairs()) {
      MedianRatio interval = pair.interval();
      if (interval != null) {
        Map<String, Object> row = row(pair.label());
        row.put("ratio", 100 * (interval.ratio() - 1));
        row.put("low", 100 * (interval.low() - 1));
        row.put("high", 100 * (interval.high() - 1));
        row.put(
            "verdict",
            switch (pair.verdict()) {
              case FASTER -> "faster";
              case SLOWER -> "slower";
              default -> "same";
            });
        rows.add(row);
      }
    }
    return rows.isEmpty() ? "" : add("ratios", "Change of each median, with its interval", rows);
  }

  /** Bars of recorded durations by kind of operation. */
  String durations(RecordedJob job) {
    List<Map<String, Object>> rows = new ArrayList<>();
    job.byKind()
        .forEach(
            (kind, operations) -> {
              Timings timings = RecordedJob.timings(operations);
              Map<String, Object> row = row(kind);
              row.put("low", timings.min());
              row.put("median", timings.median());
              row.put("high", Double.isNaN(timings.p99()) ? timings.max() : timings.p99());
              row.put("q1", timings.quantile(0.25));
              row.put("q3", timings.quantile(0.75));
              rows.add(row);
            });
    return add("times", "Median time of each recorded operation, with its scatter", rows);
  }

  /** Recorded operations over time, by kind: pairs of seconds and microseconds. */
  String timeline(RecordedJob job, double start) {
    List<Map<String, Object>> rows = new ArrayList<>();
    job.byKind()
        .forEach(
            (kind, operations) -> {
              double[] times =
                  operations.stream().mapToDouble(RecordedJob.Operation::micros).toArray();
              List<double[]> points = new ArrayList<>();
              for (double[] point : thinned(times)) {
                RecordedJob.Operation operation = operations.get((int) point[0] - 1);
                points.add(new double[] {(operation.start() - start) / 1e6, point[1]});
              }
              Map<String, Object> row = row(kind);
              row.put("points", points);
              rows.add(row);
            });
    return add("timeline", "Duration of each recorded operation over time", rows);
  }

  /** A heat map of waits: rows wait for columns. Empty if no rank has waited. */
  String waits(List<RecordedJob.Wait> waits) {
    int ranks = 0;
    double longest = 0;
    for (RecordedJob.Wait wait : waits) {
      ranks = Math.max(ranks, 1 + Math.max(wait.rank(), wait.peer()));
      longest = Math.max(longest, wait.micros());
    }
    if (longest == 0) {
      return "";
    }
    int block = Math.ceilDiv(ranks, MAX_CELLS);
    double[][] cells = new double[Math.ceilDiv(ranks, block)][Math.ceilDiv(ranks, block)];
    for (RecordedJob.Wait wait : waits) {
      double[] row = cells[wait.rank() / block];
      int column = wait.peer() / block;
      row[column] = Math.max(row[column], wait.micros());
    }
    List<Map<String, Object>> rows = new ArrayList<>();
    for (int r = 0; r < cells.length; r++) {
      Map<String, Object> row = row(ranks(r, block, ranks));
      row.put("values", cells[r]);
      rows.add(row);
    }
    String html = add("heat", "Time that each rank has waited for each other rank", rows);
    return block == 1
        ? html
        : html
            + "<p class=\"note\">A cell is %d by %d ranks, and shows the longest wait of them.</p>\n"
                .formatted(block, block);
  }

  private static String ranks(int number, int block, int ranks) {
    int last = Math.min(ranks, (number + 1) * block) - 1;
    return block == 1 ? String.valueOf(number) : number * block + "–" + last;
  }

  /** The begin of a row of a chart. */
  public static Map<String, Object> row(String label) {
    Map<String, Object> row = new LinkedHashMap<>();
    row.put("label", label);
    return row;
  }

  private String add(String kind, String description, List<Map<String, Object>> rows) {
    return add(kind, description, rows, Map.of());
  }

  /**
   * Adds a chart; returns the element for it.
   *
   * @param kind the function of the script that draws it
   * @param description for readers that see no picture
   * @param rows what it draws
   * @param more further fields that its function reads
   */
  public String add(
      String kind, String description, List<Map<String, Object>> rows, Map<String, Object> more) {
    Map<String, Object> spec = new LinkedHashMap<>(more);
    spec.put("kind", kind);
    spec.put("description", description);
    spec.put("rows", rows);
    specs.add(spec);
    return "<div class=\"chart\" id=\"chart-%d\"></div>\n".formatted(specs.size() - 1);
  }

  /** Pairs of number and time; of many, the shortest and the longest of each stretch. */
  static List<double[]> thinned(double[] samples) {
    List<double[]> points = new ArrayList<>();
    if (samples.length <= MAX_POINTS) {
      for (int i = 0; i < samples.length; i++) {
        points.add(new double[] {i + 1, samples[i]});
      }
      return points;
    }
    int stretch = Math.ceilDiv(2 * samples.length, MAX_POINTS);
    for (int from = 0; from < samples.length; from += stretch) {
      int least = from;
      int greatest = from;
      for (int i = from; i < Math.min(from + stretch, samples.length); i++) {
        least = samples[i] < samples[least] ? i : least;
        greatest = samples[i] > samples[greatest] ? i : greatest;
      }
      points.add(new double[] {Math.min(least, greatest) + 1, samples[Math.min(least, greatest)]});
      if (least != greatest) {
        points.add(
            new double[] {Math.max(least, greatest) + 1, samples[Math.max(least, greatest)]});
      }
    }
    return points;
  }
}
