import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Makes the table of {@code compare-mpi.sh}. Reads {@code RANKS-TOKENS-ROUND-CONTESTANT.json} files,
 * whose flat objects with a member "op" are results, prints Markdown, and writes everything as JSON.
 * Runs from source on JDK 17 or newer: {@code java ComparisonTable.java RAW_DIRECTORY RESULT_FILE}.
 */
public final class ComparisonTable {
  private static final Pattern FILE = Pattern.compile("(\\d+)-(\\d+)-(\\d+)-([a-z0-9-]+)\\.json");
  private static final Pattern FLAT_OBJECT = Pattern.compile("\\{[^{}]*\\}");
  private static final List<String> EP4J = List.of("ep4j-processes", "ep4j-threads");
  private static final List<String> OPS = List.of("dispatch", "combine");

  /** One measured operation of one contestant in one round, with its source text. */
  private record Result(
      int ranks,
      int tokens,
      int round,
      String contestant,
      String op,
      double medianUs,
      String instructions,
      String text) {}

  /** One world and size: a pair of rows of the table for each operation. */
  private record Case(int ranks, int tokens) implements Comparable<Case> {
    @Override
    public int compareTo(Case other) {
      int byRanks = Integer.compare(ranks, other.ranks);
      return byRanks != 0 ? byRanks : Integer.compare(tokens, other.tokens);
    }
  }

  private final List<Result> results;

  private ComparisonTable(List<Result> results) {
    this.results = results;
  }

  public static void main(String[] arguments) throws IOException {
    if (arguments.length != 2) {
      System.err.println("usage: java ComparisonTable.java RAW_DIRECTORY RESULT_FILE");
      System.exit(2);
    }
    List<Result> results = new ArrayList<>();
    try (Stream<Path> files = Files.list(Path.of(arguments[0]))) {
      files.sorted().forEach(file -> read(file, results));
    }
    ComparisonTable table = new ComparisonTable(results);
    List<Map<String, String>> rows = table.rows();
    printMarkdown(rows);
    System.out.println("\n" + table.instructions());
    Files.writeString(Path.of(arguments[1]), table.json(rows));
  }

  private static void read(Path file, List<Result> into) {
    Matcher name = FILE.matcher(file.getFileName().toString());
    if (!name.matches()) {
      return;
    }
    String content;
    try {
      content = Files.readString(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    Matcher objects = FLAT_OBJECT.matcher(content);
    int found = 0;
    while (objects.find()) {
      String text = objects.group().replaceAll("\\s*\\R\\s*", "");
      String op = member(text, "op");
      if (op == null) {
        continue;
      }
      String contestant = "ceiling".equals(member(text, "peer")) ? "ceiling" : name.group(4);
      String median = member(text, "median_us");
      if (median == null) {
        throw new IllegalStateException(file + ": a result of " + op + " without median_us");
      }
      into.add(
          new Result(
              Integer.parseInt(name.group(1)),
              Integer.parseInt(name.group(2)),
              Integer.parseInt(name.group(3)),
              contestant,
              op,
              Double.parseDouble(median),
              instructions(text, content),
              text));
      found++;
    }
    if (found == 0) {
      throw new IllegalStateException(file + ": no result in it");
    }
  }

  /** The instructions that a program reports: beside each result, or once for the file. */
  private static String instructions(String result, String content) {
    String ofPeer = member(result, "vectors");
    String ofEp4j = member(content, "instructions");
    return ofPeer != null ? ofPeer : ofEp4j != null ? ofEp4j : "unknown";
  }

  /** A comparison is fair only where both sides had the same instructions. */
  private String instructions() {
    Map<String, TreeSet<String>> programs = new TreeMap<>();
    for (Result r : results) {
      programs.computeIfAbsent(r.contestant(), any -> new TreeSet<>()).add(r.instructions());
    }
    return "Instructions: "
        + programs.entrySet().stream()
            .map(entry -> entry.getKey() + " " + String.join(" or ", entry.getValue()))
            .collect(Collectors.joining("; "));
  }

  /** The value of a string or number member of a flat object, or null. */
  private static String member(String object, String name) {
    Matcher m =
        Pattern.compile("\"" + name + "\"\\s*:\\s*(?:\"([^\"]*)\"|([-+.0-9eE]+))").matcher(object);
    return !m.find() ? null : m.group(1) != null ? m.group(1) : m.group(2);
  }

  private List<Map<String, String>> rows() {
    TreeSet<Case> cases = new TreeSet<>();
    results.forEach(r -> cases.add(new Case(r.ranks(), r.tokens())));
    List<Map<String, String>> rows = new ArrayList<>();
    for (Case c : cases) {
      for (String op : OPS) {
        boolean any = false;
        for (String engine : EP4J) {
          if (!Double.isNaN(median(c, engine, op))) {
            rows.add(row(c, op, engine));
            any = true;
          }
        }
        if (!any) {
          rows.add(row(c, op, "none"));
        }
      }
    }
    return rows;
  }

  private Map<String, String> row(Case c, String op, String engine) {
    double ep4j = median(c, engine, op);
    double alltoallv = median(c, "alltoallv", op);
    double direct = median(c, "direct", op);
    double cached = median(c, "direct-memcpy", op);
    double ceiling = median(c, "ceiling", op.equals("dispatch") ? "memcpy_bulk" : "read");
    Map<String, String> row = new LinkedHashMap<>();
    row.put("ranks", Integer.toString(c.ranks()));
    row.put("tokens", Integer.toString(c.tokens()));
    row.put("operation", op);
    row.put("ep4j as", engine.replace("ep4j-", ""));
    row.put("ep4j µs", micros(ep4j));
    row.put("Alltoallv µs", micros(alltoallv));
    row.put("direct C µs", micros(direct));
    row.put("direct C, memcpy only µs", micros(cached));
    row.put("memcpy / read ceiling µs", micros(ceiling));
    row.put("faster than Alltoallv", ratio(alltoallv / ep4j));
    row.put("faster than direct C", ratio(direct / ep4j));
    row.put("faster than direct C, memcpy only", ratio(cached / ep4j));
    row.put("of the ceiling", percent(ceiling / ep4j));
    return row;
  }

  /** Median over the rounds of the rounds' medians; NaN where nothing was measured. */
  private double median(Case c, String contestant, String op) {
    double[] all =
        results.stream()
            .filter(r -> r.ranks() == c.ranks() && r.tokens() == c.tokens())
            .filter(r -> r.contestant().equals(contestant) && r.op().equals(op))
            .mapToDouble(Result::medianUs)
            .toArray();
    Arrays.sort(all);
    int half = all.length / 2;
    return all.length == 0
        ? Double.NaN
        : all.length % 2 == 1 ? all[half] : (all[half - 1] + all[half]) / 2;
  }

  private static String micros(double value) {
    return format(value, value < 1000 ? "%.1f" : "%.0f");
  }

  private static String ratio(double value) {
    return format(value, "%.2f ×");
  }

  private static String percent(double value) {
    return format(100 * value, "%.0f %%");
  }

  private static String format(double value, String pattern) {
    return Double.isNaN(value) ? "–" : String.format(Locale.ROOT, pattern, value);
  }

  private static void printMarkdown(List<Map<String, String>> rows) {
    if (rows.isEmpty()) {
      throw new IllegalStateException("no results");
    }
    System.out.println("| " + String.join(" | ", rows.get(0).keySet()) + " |");
    System.out.println("|" + "---|".repeat(rows.get(0).size()));
    rows.forEach(row -> System.out.println("| " + String.join(" | ", row.values()) + " |"));
  }

  private String json(List<Map<String, String>> rows) {
    StringBuilder out = new StringBuilder("{\n\"table\": [\n");
    for (int i = 0; i < rows.size(); i++) {
      List<String> members = new ArrayList<>();
      rows.get(i).forEach((key, value) -> members.add(quoted(key) + ": " + quoted(value)));
      out.append("  {").append(String.join(", ", members)).append('}');
      out.append(i + 1 < rows.size() ? ",\n" : "\n");
    }
    out.append("],\n\"results\": [\n");
    for (int i = 0; i < results.size(); i++) {
      Result r = results.get(i);
      out.append("  {\"contestant\": ").append(quoted(r.contestant()));
      out.append(", \"case_ranks\": ").append(r.ranks());
      out.append(", \"case_tokens\": ").append(r.tokens());
      out.append(", \"round\": ").append(r.round());
      out.append(", \"result\": ").append(r.text()).append('}');
      out.append(i + 1 < results.size() ? ",\n" : "\n");
    }
    return out.append("],\n\"machine\": ").append(machine()).append("\n}\n").toString();
  }

  private static String machine() {
    return "{\"os\": "
        + quoted(System.getProperty("os.name") + " " + System.getProperty("os.version"))
        + ", \"arch\": "
        + quoted(System.getProperty("os.arch"))
        + ", \"cpu\": "
        + quoted(cpu())
        + ", \"cores\": "
        + Runtime.getRuntime().availableProcessors()
        + "}";
  }

  private static String cpu() {
    try (Stream<String> lines = Files.lines(Path.of("/proc/cpuinfo"))) {
      return lines
          .filter(line -> line.startsWith("model name"))
          .map(line -> line.substring(line.indexOf(':') + 1).trim())
          .findFirst()
          .orElse("unknown");
    } catch (IOException e) {
      return "unknown";
    }
  }

  private static String quoted(String value) {
    return '"' + value.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }
}
