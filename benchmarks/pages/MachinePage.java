import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** A page of a machine. */
final class MachinePage {
  private static final List<String> OPERATIONS =
      List.of(
          "dispatch bf16",
          "dispatch fp8",
          "combine bf16",
          "combine + weights bf16",
          "dispatch + combine bf16",
          "dispatch + combine fp8",
          "ll_dispatch bf16",
          "ll_dispatch fp8",
          "ll_combine bf16",
          "ll_pair bf16",
          "ll_pair fp8");

  private final Machine machine;
  private final StringBuilder out = new StringBuilder();

  MachinePage(Machine machine) {
    this.machine = machine;
  }

  String markdown() {
    line("# " + title());
    line("");
    line(
        "Made by `tools/performance-pages` from `"
            + PerformancePages.RESULTS
            + "/"
            + machine.name()
            + "`: change those"
            + " files, not this page. [How it is measured](../performance.md).");
    machine.recorded().forEach(this::recorded);
    Map<String, Map<String, Object>> left = new LinkedHashMap<>(machine.measured());
    deviceTable(take(left, MachinePage::isDeviceThroughput), "High throughput", false);
    deviceTable(take(left, MachinePage::isDeviceLatency), "Low latency", true);
    backends(take(left, MachinePage::comparesBackends));
    nodes(
        take(left, MachinePage::isBench, tree -> has(tree, "nodes") || has(tree, "between_nodes")));
    hostTable(take(left, MachinePage::isBench));
    left.forEach(this::plain);
    sources();
    return out.toString();
  }

  private String title() {
    if (machine.measured().isEmpty()) {
      return Values.text(machine.recorded().values().iterator().next(), "machine");
    }
    return title(Values.object(machine.measured().values().iterator().next().get("environment")));
  }

  private static String title(Map<String, Object> environment) {
    List<Map<String, Object>> gpus = Values.objects(environment.get("gpus"));
    String processor = Values.text(environment, "cpu") + ", " + environment.get("cores") + " cores";
    if (gpus.isEmpty()) {
      return processor;
    }
    return gpus.size()
        + " × "
        + Values.text(gpus.getFirst(), "name")
        + ", "
        + environment.get("cores")
        + " cores";
  }

  // Figures that were written down.

  private void recorded(String name, Map<String, Object> tree) {
    heading(Values.text(tree, "title"));
    line(tree.get("recorded") + ", " + tree.get("machine") + ". " + tree.get("method"));
    line("");
    line("Commands: " + tree.get("command") + ".");
    for (Map<String, Object> table : Values.objects(tree.get("tables"))) {
      List<Map<String, Object>> rows = Values.objects(table.get("rows"));
      List<String> header = new ArrayList<>();
      header.add(table.get("title") + "");
      boolean sms = rows.stream().anyMatch(row -> row.containsKey("sms"));
      if (sms) {
        header.add("SMs");
      }
      Values.list(table.get("columns")).forEach(column -> header.add(column.toString()));
      head(header);
      for (Map<String, Object> row : rows) {
        List<String> cells = new ArrayList<>();
        String system = Values.text(row, "system");
        String detail = row.containsKey("detail") ? ", " + row.get("detail") : "";
        cells.add((system.startsWith("ep4j") ? "**" + system + "**" : system) + detail);
        if (sms) {
          cells.add(Values.text(row, "sms"));
        }
        for (Object figure : Values.list(row.get("figures"))) {
          cells.add(
              figure == null ? "–" : figure(Values.object(figure), Values.text(table, "notation")));
        }
        row(cells);
      }
    }
    line("");
    Values.list(tree.get("reading")).forEach(reading -> line("- " + reading));
  }

  private static String figure(Map<String, Object> figure, String notation) {
    String kernel = range(figure.get("kernel"));
    if (notation.equals("call")) {
      return range(figure.get("call"));
    }
    if (notation.equals("kernel / call")) {
      return kernel + " / " + range(figure.get("call"));
    }
    String calls = figure.containsKey("calls") ? " (" + range(figure.get("calls")) + ")" : "";
    return figure.containsKey("kernel")
        ? kernel + " kernel" + calls
        : range(figure.get("graph")) + calls;
  }

  static String range(Object value) {
    if (value instanceof List<?> bounds) {
      return asWritten(bounds.get(0)) + "–" + asWritten(bounds.get(1));
    }
    return value == null ? "–" : asWritten(value);
  }

  /** A figure with the digits that were written down; long ones in milliseconds. */
  private static String asWritten(Object value) {
    return Values.number(value) < 1000 ? value.toString() : Values.micros(Values.number(value));
  }

  // Figures of ./ep4j bench.

  private static boolean isBench(Map<String, Object> tree) {
    return tree.containsKey("configuration");
  }

  private static boolean isDevice(Map<String, Object> tree) {
    return isBench(tree) && has(tree, "sms") && !has(tree, "nodes") && !comparesBackends(tree);
  }

  private static boolean isDeviceThroughput(Map<String, Object> tree) {
    return isDevice(tree) && has(tree, "kernel_median_us");
  }

  private static boolean isDeviceLatency(Map<String, Object> tree) {
    return isDevice(tree) && has(tree, "as");
  }

  private static boolean comparesBackends(Map<String, Object> tree) {
    return isBench(tree)
        && Values.objects(tree.get("results")).stream()
                .map(r -> r.get("backend"))
                .distinct()
                .count()
            > 1;
  }

  private static boolean has(Map<String, Object> tree, String field) {
    return Values.objects(tree.get("results")).stream()
        .anyMatch(result -> result.containsKey(field));
  }

  @SafeVarargs
  private static Map<String, Map<String, Object>> take(
      Map<String, Map<String, Object>> from, Predicate<Map<String, Object>>... conditions) {
    Map<String, Map<String, Object>> taken = new LinkedHashMap<>();
    from.forEach(
        (name, tree) -> {
          if (Stream.of(conditions).allMatch(condition -> condition.test(tree))) {
            taken.put(name, tree);
          }
        });
    from.keySet().removeAll(taken.keySet());
    return taken;
  }

  /**
   * One table: a row for each file, number of tokens and number of SMs, a column for each
   * operation.
   */
  private void deviceTable(Map<String, Map<String, Object>> trees, String title, boolean latency) {
    if (trees.isEmpty()) {
      return;
    }
    heading(title);
    line(
        latency
            ? "Period of a chain as a graph, in brackets as calls; µs, median, the slowest rank."
            : "Whole call, in brackets the kernel alone; µs, median, the slowest rank. Ceiling:"
                + " bare pushes of the same rows in the same run.");
    Set<String> operations = operations(trees);
    List<String> header = new ArrayList<>(List.of("file: what differs", "SMs"));
    operations.forEach(operation -> header.add(word(operation).replace("low-latency ", "")));
    if (!latency) {
      header.add("ceilings");
    }
    head(header);
    trees.forEach((name, tree) -> deviceRows(name, tree, operations, latency));
  }

  private void deviceRows(
      String name, Map<String, Object> tree, Set<String> operations, boolean latency) {
    Map<String, Map<String, String>> rows = new LinkedHashMap<>();
    Map<String, String> ceilings = new LinkedHashMap<>();
    for (Map<String, Object> result : Values.objects(tree.get("results"))) {
      String sms = sms(result);
      String tokens = latency ? result.get("tokens") + " tokens, " : "";
      Map<String, String> cells =
          rows.computeIfAbsent(tokens + "|" + sms, _ -> new LinkedHashMap<>());
      String operation = operation(result);
      String median = Values.micros(Values.number(result.get("median_us")));
      if (!latency) {
        first(
            cells,
            operation,
            median + " (" + Values.micros(Values.number(result.get("kernel_median_us"))) + ")");
        if (result.containsKey("ceiling_us")) {
          String dtype = Values.text(result, "dtype").toUpperCase(Locale.ROOT);
          first(
              ceilings,
              dtype,
              Values.micros(Values.number(result.get("ceiling_us"))) + " " + dtype);
        }
      } else if (result.get("as").equals("calls")) {
        cells.merge(operation, "(" + median + ")", (graph, calls) -> graph + " " + calls);
      } else {
        String before = cells.get(operation);
        cells.put(operation, before == null ? median : median + " " + before);
      }
    }
    rows.forEach(
        (key, cells) -> {
          List<String> row = new ArrayList<>();
          int bar = key.indexOf('|');
          row.add("`" + name + "`: " + key.substring(0, bar) + variant(tree));
          row.add(key.substring(bar + 1));
          operations.forEach(operation -> row.add(cells.getOrDefault(operation, "–")));
          if (!latency) {
            row.add(String.join(", ", ceilings.values()));
          }
          row(row);
        });
  }

  private void backends(Map<String, Map<String, Object>> trees) {
    trees.forEach(
        (name, tree) -> {
          heading("Backends side by side: `" + name + "`");
          line(
              "µs, median; a name that is there twice shows what one backend differs from"
                  + " itself.");
          Map<String, Map<String, String>> rows = new LinkedHashMap<>();
          Set<String> backends = new LinkedHashSet<>();
          for (Map<String, Object> result : Values.objects(tree.get("results"))) {
            String backend = Values.text(result, "backend");
            backends.add(backend);
            String row =
                word(operation(result)) + (result.containsKey("as") ? ", " + result.get("as") : "");
            cell(rows, row, backend, result.get("median_us"));
            if (result.containsKey("kernel_median_us")) {
              cell(rows, row + ", kernel alone", backend, result.get("kernel_median_us"));
            }
          }
          List<String> header = new ArrayList<>(List.of(variant(tree)));
          header.addAll(backends);
          head(header);
          rows.forEach(
              (row, cells) -> {
                List<String> line = new ArrayList<>(List.of(row));
                backends.forEach(backend -> line.add(cells.getOrDefault(backend, "–")));
                row(line);
              });
        });
  }

  private static void cell(
      Map<String, Map<String, String>> rows, String row, String backend, Object value) {
    first(
        rows.computeIfAbsent(row, _ -> new LinkedHashMap<>()),
        backend,
        Values.micros(Values.number(value)));
  }

  /** Keeps the first of several values: combines stand in the runs of both formats. */
  private static void first(Map<String, String> cells, String name, String value) {
    cells.merge(name, value, (before, _) -> before);
  }

  private void nodes(Map<String, Map<String, Object>> trees) {
    if (trees.isEmpty()) {
      return;
    }
    heading("Between nodes declared on this host");
    line(
        "Ceiling: what the wire, or copies to the host, carry in the same run, both ways at"
            + " once.");
    head(
        List.of(
            "file",
            "operation",
            "SMs",
            "median",
            "GB/s each way",
            "of the ceiling",
            "cores in proxies"));
    trees.forEach(
        (name, tree) -> {
          for (Map<String, Object> result : Values.objects(tree.get("results"))) {
            Map<String, Object> nodes = new LinkedHashMap<>();
            nodes.putAll(Values.object(result.getOrDefault("nodes", Map.of())));
            nodes.putAll(Values.object(result.getOrDefault("between_nodes", Map.of())));
            Object rate = nodes.getOrDefault("scale_out_gbps", nodes.get("gbps_each_way"));
            Object share = nodes.getOrDefault("percent_of_ceiling", nodes.get("percent_of_wire"));
            String as = result.containsKey("as") ? ", " + result.get("as") : "";
            row(
                List.of(
                    "`" + name + "`",
                    word(operation(result)) + as,
                    sms(result),
                    Values.micros(Values.number(result.get("median_us"))),
                    rate == null ? "–" : Values.significant(rate),
                    share == null ? "–" : Math.round(Values.number(share)) + " %",
                    nodes.containsKey("proxy_cores")
                        ? Values.significant(nodes.get("proxy_cores"))
                        : "–"));
          }
        });
  }

  private void hostTable(Map<String, Map<String, Object>> trees) {
    if (trees.isEmpty()) {
      return;
    }
    heading("Host engine");
    line(
        "µs, the slowest rank. GB/s: received rows over the median. Ceiling: copying (dispatch)"
            + " or reading (combine) the same bytes in the same run.");
    head(
        List.of(
            "file: what differs",
            "operation",
            "median",
            "least",
            "p99",
            "GB/s",
            "of the ceiling",
            "calls"));
    trees.forEach(
        (name, tree) -> {
          for (Map<String, Object> result : Values.objects(tree.get("results"))) {
            Object ceiling = result.get("ceiling_percent");
            row(
                List.of(
                    "`" + name + "`: " + variant(tree),
                    word(operation(result)),
                    Values.micros(Values.number(result.get("median_us"))),
                    Values.micros(Values.number(result.get("min_us"))),
                    result.get("p99_us") == null
                        ? "–"
                        : Values.micros(Values.number(result.get("p99_us"))),
                    Values.significant(result.get("logical_gbps")),
                    ceiling == null ? "–" : Math.round(Values.number(ceiling)) + " %",
                    String.valueOf(result.get("iterations"))));
          }
        });
  }

  /** Any other file: all fields of its results that are single values. */
  private void plain(String name, Map<String, Object> tree) {
    heading("`" + name + "`");
    List<Map<String, Object>> results = Values.objects(tree.get("results"));
    Set<String> fields = new LinkedHashSet<>();
    for (Map<String, Object> result : results) {
      result.forEach(
          (field, value) -> {
            if (!(value instanceof List) && !(value instanceof Map)) {
              fields.add(field);
            }
          });
    }
    head(fields.stream().map(field -> field.replace('_', ' ')).toList());
    for (Map<String, Object> result : results) {
      row(
          fields.stream()
              .map(field -> result.get(field))
              .map(
                  value ->
                      value instanceof Number
                          ? Values.significant(value)
                          : value == null ? "–" : value + "")
              .toList());
    }
  }

  private void sources() {
    if (machine.measured().isEmpty()) {
      return;
    }
    heading("Files and commands");
    line("Every output was compared with the oracle before and after the timing.");
    head(List.of("file", "time (UTC)", "revision", "Java", "command"));
    machine
        .measured()
        .forEach(
            (name, tree) -> {
              Map<String, Object> environment = Values.object(tree.get("environment"));
              String revision = Values.text(tree, "git");
              row(
                  List.of(
                      "`" + name + "`",
                      Values.text(tree, "time"),
                      revision.substring(0, Math.min(10, revision.length())),
                      Values.text(environment, "java"),
                      "`" + Values.text(tree, "command") + "`"));
            });
  }

  private static String joined(Object values) {
    return Values.list(values).stream().map(String::valueOf).collect(Collectors.joining(","));
  }

  /** In words, what of the settings is not usual. */
  private static String variant(Map<String, Object> tree) {
    Map<String, Object> settings = Values.object(tree.get("configuration"));
    List<String> words = new ArrayList<>();
    words.add(settings.get("ranks") + " " + settings.get("ranks_are"));
    boolean latency = settings.get("kind").equals("ll");
    if (!latency && Values.number(settings.get("tokens")) != 4096) {
      words.add(settings.get("tokens") + " tokens");
    }
    if (latency && !has(tree, "tokens")) {
      words.add(joined(settings.get("ll_tokens")) + " tokens");
    }
    if (Values.number(settings.get("hidden")) != 7168) {
      words.add("hidden " + settings.get("hidden"));
    }
    if (Values.number(settings.get("experts")) != 256 || Values.number(settings.get("topk")) != 8) {
      words.add("top-" + settings.get("topk") + " of " + settings.get("experts"));
    }
    for (String field : List.of("mode", "layout", "routing")) {
      String value = Values.text(settings, field);
      if (!List.of("exact", "flat", "uniform").contains(value)) {
        words.add(value);
      }
    }
    Map<String, String> flags =
        Map.of(
            "hook",
            "hook",
            "logfmt",
            "LogFMT-10",
            "partial",
            "partial sums",
            "rank_major",
            "rank-major",
            "zero_copy",
            "zero copy");
    flags.keySet().stream()
        .sorted()
        .filter(flag -> Boolean.TRUE.equals(settings.get(flag)))
        .forEach(flag -> words.add(flags.get(flag)));
    return String.join(", ", words);
  }

  private static Set<String> operations(Map<String, Map<String, Object>> trees) {
    Set<String> found = new LinkedHashSet<>();
    for (Map<String, Object> tree : trees.values()) {
      Values.objects(tree.get("results")).forEach(result -> found.add(operation(result)));
    }
    Set<String> ordered = new LinkedHashSet<>(OPERATIONS);
    ordered.retainAll(found);
    ordered.addAll(found);
    return ordered;
  }

  private static String operation(Map<String, Object> result) {
    return result.get("op") + " " + result.get("dtype");
  }

  /** An operation in words. */
  private static String word(String operation) {
    int space = operation.lastIndexOf(' ');
    return operation.substring(0, space).replace("ll_", "low-latency ")
        + operation.substring(space).toUpperCase(Locale.ROOT);
  }

  private static String sms(Map<String, Object> result) {
    return Values.number(result.getOrDefault("sms", 0L)) == 0
        ? "auto"
        : String.valueOf(result.get("sms"));
  }

  private void heading(String text) {
    line("");
    line("## " + text);
    line("");
  }

  private void head(List<String> cells) {
    line("");
    row(cells);
    line("|" + "---|".repeat(cells.size()));
  }

  private void row(List<String> cells) {
    line("| " + String.join(" | ", cells) + " |");
  }

  private void line(String text) {
    boolean blank = out.isEmpty() || out.toString().endsWith("\n\n");
    if (!text.isEmpty() || !blank) {
      out.append(text).append('\n');
    }
  }
}
