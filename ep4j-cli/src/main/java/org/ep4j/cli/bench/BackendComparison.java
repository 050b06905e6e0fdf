package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.config.BackendName;
import org.ep4j.cuda.backend.BackendChoice;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.Ep4jException;
import org.jspecify.annotations.Nullable;

/**
 * Runs the parts of a GPU bench with each backend and prints the times side by side. A repeated
 * name is measured again: the difference of its columns is the noise of the comparison.
 */
final class BackendComparison {
  private static final String NOTE =
      "medians of the tables above; in brackets: difference from the first column\n";

  private final RankContext context;
  private final boolean threads;
  private final Consumer<RankContext> found;

  /** Whether the code under measurement is warmed up. */
  private boolean warm;

  /**
   * A comparison.
   *
   * @param threads whether the ranks are threads of this JVM
   * @param found receives the context of each buffer, with its nodes
   */
  BackendComparison(RankContext context, boolean threads, Consumer<RankContext> found) {
    this.context = context;
    this.threads = threads;
    this.found = found;
  }

  /** Runs the comparison; returns the results for the artifact. */
  List<Map<String, Object>> run() {
    List<String> backends = context.settings().backends();
    Map<String, List<Map<String, Object>>> columns = new LinkedHashMap<>();
    Ep4jException last = null;
    for (int i = 0; i < backends.size(); i++) {
      String backend = BackendChoice.of(backends.get(i)).name();
      String name = columns.containsKey(backend) ? backend + " (" + (i + 1) + ")" : backend;
      RankContext own = context.with(context.settings().on(backend));
      try {
        columns.put(name, column(own, name));
        if (context.settings().nccl().background()) {
          withNcclTraffic(own, name, columns);
        }
      } catch (EngineUnavailableException | ConfigurationMismatchException e) {
        if (backends.size() == 1) {
          throw e;
        }
        last = e;
        // All ranks throw the same error: they have agreed on it.
        own.print(own.style().bad("not measured: " + e.getMessage()) + "\n");
      }
    }
    if (columns.isEmpty() && last != null) {
      throw last;
    }
    if (columns.size() > 1) {
      context.print("\n" + table(columns).render(context.style()) + context.style().faint(NOTE));
    }
    List<Map<String, Object>> all = new ArrayList<>();
    columns.values().forEach(all::addAll);
    return all;
  }

  private void withNcclTraffic(
      RankContext own, String backend, Map<String, List<Map<String, Object>>> columns) {
    try (BackgroundTraffic traffic = new BackgroundTraffic(own)) {
      String name = backend + " with " + traffic.name();
      columns.put(name, column(own, name));
      own.print(traffic.stop());
    }
  }

  private List<Map<String, Object>> column(RankContext own, String name) {
    boolean plain =
        context.settings().backends().size() == 1 && !context.settings().nccl().background();
    if (!plain || !name.equals(BackendName.DIRECT)) {
      own.print("\n" + own.style().bold("backend " + name) + "\n");
    }
    return parts(own, name);
  }

  private List<Map<String, Object>> parts(RankContext own, String backend) {
    BenchReport report = new BenchReport(own.settings(), own.group().size(), threads);
    List<Map<String, Object>> trees = new ArrayList<>();
    if (own.settings().highThroughput()) {
      trees.addAll(new DeviceSession(own, threads, found).run(warm));
    }
    if (own.settings().lowLatency()) {
      trees.addAll(new LatencySession(own, report, found).run(warm));
    }
    warm = true;
    trees.forEach(tree -> tree.put("backend", backend));
    return trees;
  }

  /** A row for each figure that all columns have, named as in the results. */
  static Table table(Map<String, List<Map<String, Object>>> columns) {
    List<String> header = new ArrayList<>(List.of("operation"));
    header.addAll(columns.keySet());
    Table table = new Table(header.toArray(String[]::new));
    List<Map<String, Double>> figures =
        columns.values().stream().map(BackendComparison::figures).toList();
    for (String line : figures.getFirst().keySet()) {
      if (figures.stream().allMatch(column -> column.containsKey(line))) {
        table.row(cells(line, figures));
      }
    }
    return table;
  }

  private static String[] cells(String line, List<Map<String, Double>> figures) {
    List<String> cells = new ArrayList<>(List.of(line));
    double first = figures.getFirst().getOrDefault(line, Double.NaN);
    for (int i = 0; i < figures.size(); i++) {
      double micros = figures.get(i).getOrDefault(line, Double.NaN);
      String against = " (%+.1f %%)".formatted(100 * (micros / first - 1));
      cells.add(Units.micros(micros) + (i == 0 ? "" : against));
    }
    return cells.toArray(String[]::new);
  }

  /** The medians of the results by operation. */
  private static Map<String, Double> figures(List<Map<String, Object>> results) {
    Map<String, Double> figures = new LinkedHashMap<>();
    for (Map<String, Object> result : results) {
      StringBuilder name = new StringBuilder();
      name.append(result.get("op")).append(' ').append(result.get("dtype"));
      if (result.containsKey("tokens")) {
        name.append(", ").append(result.get("tokens")).append(" tokens");
      }
      if (result.containsKey("as")) {
        name.append(", ").append(result.get("as"));
      }
      if (result.get("sms") instanceof Integer sms && sms > 0) {
        name.append(", ").append(sms).append(" SMs");
      }
      put(figures, name.toString(), result.get("median_us"));
      put(figures, name + ", kernel", result.get("kernel_median_us"));
    }
    return figures;
  }

  private static void put(Map<String, Double> figures, String name, @Nullable Object value) {
    if (value instanceof Double micros && !Double.isNaN(micros)) {
      figures.put(name, micros);
    }
  }
}
