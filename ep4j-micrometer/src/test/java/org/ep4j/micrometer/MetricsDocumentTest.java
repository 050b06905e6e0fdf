package org.ep4j.micrometer;

import static org.assertj.core.api.Assertions.assertThat;

import io.micrometer.core.instrument.Meter;
import io.micrometer.prometheusmetrics.PrometheusNamingConvention;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** The page, the dashboard and the alert rules speak of meters that exist. */
class MetricsDocumentTest {
  private static final Path DOCUMENTS =
      Path.of("").toAbsolutePath().resolveSibling("docs/observability");

  private static final Pattern NAME = Pattern.compile("(?<![:\\w])ep4j_[a-z_]+");

  @Test
  void thePageHasTheTableOfAllMeters() throws IOException {
    List<String> rows =
        Files.readAllLines(DOCUMENTS.resolve("README.md")).stream()
            .filter(line -> line.startsWith("| `ep4j."))
            .toList();
    assertThat(rows)
        .containsExactlyElementsOf(
            Arrays.stream(BufferMeter.values()).map(MetricsDocumentTest::row).toList());
  }

  private static String row(BufferMeter meter) {
    String tags =
        meter.tags().stream().map(tag -> "`" + tag + "`").collect(Collectors.joining(", "));
    return "| `%s` | `%s` | %s | %s | %s | %s | %s |"
        .formatted(
            meter.id,
            prometheusName(meter),
            meter.kind.name().toLowerCase(Locale.ROOT),
            meter.unit.isEmpty() ? "–" : meter.unit,
            tags.isEmpty() ? "–" : tags,
            meter.meaning,
            meter.origin.call);
  }

  private static String prometheusName(BufferMeter meter) {
    Meter.Type type =
        switch (meter.kind) {
          case TIMER -> Meter.Type.TIMER;
          case COUNTER -> Meter.Type.COUNTER;
          case GAUGE -> Meter.Type.GAUGE;
        };
    String unit = meter.unit.isEmpty() ? null : meter.unit;
    String name = new PrometheusNamingConvention().name(meter.id, type, unit);
    // The exposition adds the ending of counters.
    return type == Meter.Type.COUNTER && !name.endsWith("_total") ? name + "_total" : name;
  }

  @Test
  void dashboardAndRulesUseNamesThatExist() throws IOException {
    Set<String> known = new TreeSet<>();
    for (BufferMeter meter : BufferMeter.values()) {
      String name = prometheusName(meter);
      if (meter.kind == BufferMeter.Kind.TIMER) {
        known.addAll(List.of(name + "_count", name + "_sum", name + "_max"));
      } else {
        known.add(name);
      }
    }
    for (String file : List.of("grafana-dashboard.json", "alerts.yml", "README.md")) {
      Set<String> used =
          NAME.matcher(Files.readString(DOCUMENTS.resolve(file)))
              .results()
              .map(MatchResult::group)
              .collect(Collectors.toCollection(TreeSet::new));
      if (file.equals("README.md")) {
        Arrays.stream(BufferMeter.values())
            .map(MetricsDocumentTest::prometheusName)
            .forEach(used::remove);
      }
      assertThat(known).as(file).containsAll(used);
    }
  }

  /** What a dashboard leaves out, its reader does not see. */
  @Test
  void theDashboardShowsEveryMeter() throws IOException {
    String dashboard = Files.readString(DOCUMENTS.resolve("grafana-dashboard.json"));
    assertThat(BufferMeter.values()).allMatch(meter -> dashboard.contains(prometheusName(meter)));
  }
}
