package org.ep4j.cli.report;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Predicate;
import org.ep4j.cli.text.Units;

/** What a page shows of one run. */
final class RunSection {
  /** More bars are folded away. */
  private static final int MANY_BARS = 16;

  private final RunArtifact run;
  private final Charts charts;

  RunSection(RunArtifact run, Charts charts) {
    this.run = run;
    this.charts = charts;
  }

  /** The machine and the run in a line. */
  String subtitle() {
    String gpus = run.environment().getOrDefault("gpus", "none");
    String device = run.option("device");
    return "%s engine, %s ranks (%s), %s, %s"
        .formatted(
            device.isEmpty() ? "unknown" : device,
            run.option("ranks"),
            run.option("ranks_are"),
            device.equals("cuda") && !gpus.equals("none")
                ? gpuNames(gpus)
                : run.environment().getOrDefault("cpu", "unknown processor"),
            run.time().replace('T', ' ').replace("Z", " UTC"));
  }

  private static String gpuNames(String gpus) {
    return gpus.replaceFirst(", compute_capability.*", "").replaceFirst("^name ", "");
  }

  /** Results, charts, glossary, machine. */
  String html() {
    StringBuilder html = new StringBuilder();
    html.append(verification()).append("<p>").append(Html.text(work())).append("</p>\n");
    if (run.results().isEmpty()) {
      return html.append("<p>Nothing was measured.</p>\n").append(facts()).toString();
    }
    html.append("<h3>Results</h3>\n").append(table());
    figures(html, "High throughput", Predicate.not(Measured::lowLatency));
    figures(html, "Low latency", Measured::lowLatency);
    String iterations = charts.iterations(run.results());
    if (!iterations.isEmpty()) {
      html.append("<details><summary>Every iteration</summary>\n")
          .append(
              "<p>The time of each iteration in the order of the run. A level line is a quiet"
                  + " machine; steps and slopes say that something else changed the times.</p>\n")
          .append("<div class=\"grid\">")
          .append(iterations)
          .append("</div></details>\n");
    }
    return html.append(glossary()).append(facts()).toString();
  }

  private String verification() {
    return run.verified()
        ? "<p class=\"good\">✓ Verified: the oracle computed every output, and every byte was equal,"
            + " before and after the timing.</p>\n"
        : "<p class=\"bad\">✗ Not verified: do not use these times.</p>\n";
  }

  /** What an iteration did, for readers new to the benchmark. */
  private String work() {
    String few = (number("ll_tokens").contains(",") ? "in turn " : "") + number("ll_tokens");
    String tokens =
        switch (run.option("kind")) {
          case "ll" -> few;
          case "all" -> "%s (low latency: %s)".formatted(number("tokens"), few);
          default -> number("tokens");
        };
    return ("Each of %s ranks has %s tokens, rows of %s values. A dispatch sends each token to its %s"
            + " of %s experts, which lie on all ranks; a combine brings the results back and adds"
            + " them. All ranks begin an iteration together, and the slowest one ends it.")
        .formatted(number("ranks"), tokens, number("hidden"), number("topk"), number("experts"));
  }

  private String number(String option) {
    return run.configuration().getOrDefault(option, "?");
  }

  private record Column(String heading, boolean optional, Function<Measured, String> cell) {}

  private static final List<Column> COLUMNS =
      List.of(
          new Column("operation", false, result -> result.label() + (result.steady() ? "" : " *")),
          new Column("iterations", false, result -> String.valueOf(result.iterations())),
          new Column("median", false, result -> time(result.median())),
          new Column("p99", false, result -> time(result.p99())),
          new Column("fastest", false, result -> time(result.min())),
          new Column("kernel", true, result -> time(result.kernel())),
          new Column("host", true, result -> result.host() > 0 ? time(result.host()) : ""),
          new Column("GB/s", false, result -> rate(result.logicalGbps())),
          new Column("remote GB/s", false, result -> rate(result.remoteGbps())),
          new Column("ceiling", true, result -> time(result.ceiling())),
          new Column("% of ceiling", true, result -> percent(result.ceiling() / result.median())),
          new Column("GB/s between nodes", true, result -> rate(result.betweenNodes())),
          new Column("limit between nodes", true, result -> rate(result.betweenNodesCeiling())));

  private static String time(double micros) {
    return Double.isNaN(micros) ? "" : micros(micros);
  }

  static String micros(double micros) {
    return Html.cell(Units.micros(micros));
  }

  private static String rate(double value) {
    return Double.isNaN(value) ? "" : Units.significant(value);
  }

  private static String percent(double share) {
    return Double.isFinite(share) ? Units.fixed(100 * share, 0) : "";
  }

  private String table() {
    List<Column> shown =
        COLUMNS.stream()
            .filter(
                column ->
                    !column.optional()
                        || run.results().stream().anyMatch(r -> !column.cell().apply(r).isEmpty()))
            .toList();
    List<List<String>> rows = new ArrayList<>();
    for (Measured result : run.results()) {
      rows.add(
          shown.stream()
              .map(column -> column.cell().apply(result))
              .map(cell -> cell.isEmpty() ? "–" : cell)
              .toList());
    }
    String note =
        run.results().stream().allMatch(Measured::steady)
            ? ""
            : "<p class=\"note\">* no steady state: the operation was still becoming faster while"
                + " it was timed.</p>\n";
    return Html.table(shown.stream().map(Column::heading).toList(), rows, "numbers") + note;
  }

  private void figures(StringBuilder html, String name, Predicate<Measured> part) {
    List<Measured> results = run.results().stream().filter(part).toList();
    if (results.isEmpty()) {
      return;
    }
    String sweeps = charts.sweeps(results);
    if (!sweeps.isEmpty()) {
      html.append("<h3>").append(name).append(": sweeps</h3>\n");
      html.append(
          "<p>Points are medians; a vertical line goes from the fastest iteration to p99 (of fewer"
              + " than 100 iterations: to the slowest).</p>\n");
      html.append(sweeps);
    }
    boolean many = results.size() > MANY_BARS;
    html.append(many ? "<details><summary>" : "<h3>")
        .append(name)
        .append(": time of an operation")
        .append(many ? "</summary>\n" : "</h3>\n")
        .append("<p>The shorter, the better.</p>\n")
        .append(charts.times(results))
        .append(many ? "</details>\n" : "");
    String rates = charts.rates(results);
    if (!rates.isEmpty()) {
      html.append(many ? "<details><summary>" : "<h3>")
          .append(name)
          .append(": received gigabytes a second")
          .append(many ? "</summary>\n" : "</h3>\n")
          .append("<p>Of each rank, over the median time. The longer, the better.</p>\n")
          .append(rates)
          .append(many ? "</details>\n" : "");
    }
  }

  private String glossary() {
    return "<h3>What the figures mean</h3>\n" + Html.definitions(Glossary.of(run.results()));
  }

  private String facts() {
    Map<String, String> machine = new LinkedHashMap<>();
    machine.put("ep4j", run.version());
    machine.put("time (UTC)", run.time());
    machine.putAll(run.environment());
    return "<h3>Machine and configuration</h3>\n<div class=\"grid\">"
        + facts("Machine", machine)
        + facts("Configuration", run.configuration())
        + "</div>\n";
  }

  private static String facts(String heading, Map<String, String> facts) {
    List<List<String>> rows = new ArrayList<>();
    facts.forEach((name, value) -> rows.add(List.of(name.replace('_', ' '), value)));
    return Html.table(List.of(heading, "value"), rows, "facts");
  }
}
