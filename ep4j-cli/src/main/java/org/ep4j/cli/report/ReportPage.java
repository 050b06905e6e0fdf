package org.ep4j.cli.report;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.ep4j.cli.text.Json;
import org.jspecify.annotations.Nullable;

/** A page about runs. */
public final class ReportPage {
  /**
   * The format of an artifact that pages show: what the fields are called and mean. Artifacts
   * without this field have the same ones.
   */
  public static final String FORMAT = "bench/1";

  private ReportPage() {}

  /** The page about a run that has just ended, from the tree of its artifact. */
  public static String ofTree(Map<String, Object> tree) {
    try {
      // Through the text: the page of a run is that of its artifact.
      return of(List.of(RunArtifact.of("this run", Json.parse(Json.text(tree)))), List.of(), null);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * The page about these runs, with the comparisons of the others with the first.
   *
   * @param recorded recordings of the flight recorder, or null
   */
  static String of(
      List<RunArtifact> runs,
      List<RunComparison> comparisons,
      @Nullable RecordingSection recorded) {
    Charts charts = new Charts();
    StringBuilder body = new StringBuilder();
    for (RunComparison comparison : comparisons) {
      body.append(section(comparison, charts));
    }
    for (RunArtifact run : runs) {
      RunSection section = new RunSection(run, charts);
      body.append("<section>\n<h2>")
          .append(Html.text(runs.size() == 1 ? heading(run) : run.name()))
          .append("</h2>\n<p class=\"note\">")
          .append(Html.text(section.subtitle()))
          .append("</p>\n")
          .append(section.html())
          .append("</section>\n");
    }
    if (recorded != null) {
      body.append(recorded.html(charts));
    }
    return Page.of(title(runs.size(), recorded != null), body, charts);
  }

  private static String title(int runs, boolean recorded) {
    return recorded ? "ep4j report" : runs == 1 ? "ep4j bench" : "ep4j bench: comparison of runs";
  }

  private static String heading(RunArtifact run) {
    return switch (run.option("kind")) {
      case "ht" -> "Dispatch and combine, high throughput";
      case "ll" -> "Dispatch and combine, low latency";
      default -> "Dispatch and combine";
    };
  }

  private static String section(RunComparison comparison, Charts charts) {
    StringBuilder html = new StringBuilder("<section>\n<h2>");
    html.append(Html.text(comparison.second().name() + " against " + comparison.first().name()))
        .append("</h2>\n");
    if (!comparison.otherWork().isEmpty()) {
      html.append("<p class=\"bad\">⚠ ").append(Html.text(comparison.otherWork())).append("</p>\n");
    }
    List<List<String>> rows = new ArrayList<>();
    for (RunComparison.Pair pair : comparison.pairs()) {
      rows.add(
          List.of(
              pair.label(),
              pair.words(),
              RunSection.micros(pair.before().median()),
              RunSection.micros(pair.after().median())));
    }
    html.append(
        Html.table(
            List.of("operation", "result", "median of the first", "median of the second"),
            rows,
            "numbers words"));
    String ratios = charts.ratios(comparison);
    if (!ratios.isEmpty()) {
      html.append("<h3>Change of the median</h3>\n<p>A point is the change of the median time in")
          .append(" per cent, a line its 95 % confidence interval. Left of zero the second run is")
          .append(" faster; a line across zero shows no difference.</p>\n")
          .append(ratios);
    }
    html.append("<p class=\"note\">")
        .append(Html.text(RunComparison.NOTE.substring(0, 1).toUpperCase(Locale.ROOT)))
        .append(Html.text(RunComparison.NOTE.substring(1)))
        .append(". Of 20 intervals one misses the truth; with fewer than 20 iterations, or where")
        .append(" iterations strongly resemble their neighbours, one of 12.</p>\n");
    List<List<String>> differences =
        comparison.differences().stream()
            .map(row -> List.of(row[0].replace('_', ' '), row[1], row[2]))
            .toList();
    html.append("<h3>What differs between the runs</h3>\n");
    html.append(
        differences.isEmpty()
            ? "<p>Version, machine and configuration are the same.</p>\n"
            : Html.table(List.of("", "first", "second"), differences, "facts"));
    return html.append("</section>\n").toString();
  }
}
