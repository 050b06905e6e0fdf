import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Makes the pages of docs/performance and their picture from the JSON files below
 * benchmarks/results. Runs from source, by {@code tools/performance-pages}:
 *
 * <ul>
 *   <li>{@code java PerformancePages.java make REPOSITORY OUTPUT} writes all pages below OUTPUT.
 *   <li>{@code java PerformancePages.java add REPOSITORY MACHINE FILE...} puts files of {@code
 *       --json} there, without the times of single calls.
 * </ul>
 *
 * <p>A directory of results is a machine. Its files are those of {@code ./ep4j bench ... --json},
 * or hold figures that were written down ("recorded": their date).
 */
public final class PerformancePages {
  static final String RESULTS = "benchmarks/results";
  private static final String PICTURE = "performance.svg";
  private static final String MAIN = "org.ep4j.cli/org.ep4j.cli.Main";
  private static final int MAX_LINES = 150;

  /** Fields with a time for each call; only their summaries are kept. */
  private static final Set<String> SINGLE_CALLS =
      Set.of(
          "iterations_us", "kernel_us", "host_us", "nccl_exchange_us", "latency_us", "stream_us");

  private PerformancePages() {}

  public static void main(String... arguments) throws IOException {
    if (arguments.length == 3 && arguments[0].equals("make")) {
      make(Path.of(arguments[1]), Path.of(arguments[2]));
    } else if (arguments.length > 3 && arguments[0].equals("add")) {
      Path machine = Path.of(arguments[1], RESULTS, arguments[2]);
      Files.createDirectories(machine);
      for (String file : List.of(arguments).subList(3, arguments.length)) {
        add(machine, Path.of(file));
      }
    } else {
      System.err.println("usage: PerformancePages make REPOSITORY OUTPUT");
      System.err.println("       PerformancePages add REPOSITORY MACHINE FILE...");
      System.exit(2);
    }
  }

  private static void add(Path machine, Path file) throws IOException {
    Map<String, Object> tree = Json.read(file);
    if (!tree.containsKey("results") || !tree.containsKey("environment")) {
      throw new IllegalArgumentException(file + " is no file of ./ep4j bench --json");
    }
    for (Map<String, Object> result : Values.objects(tree.get("results"))) {
      result.keySet().removeAll(SINGLE_CALLS);
    }
    tree.put(
        "command", command(Values.list(Values.object(tree.get("environment")).remove("flags"))));
    Files.writeString(machine.resolve(file.getFileName()), Json.text(tree));
  }

  /** The command that wrote a file, from the arguments of the JVM. */
  private static String command(List<?> flags) {
    StringBuilder text = new StringBuilder("./ep4j");
    for (int i = flags.indexOf(MAIN) + 1; i < flags.size(); i++) {
      String argument = flags.get(i).toString();
      if (argument.equals("--json")) {
        i++;
      } else if (!argument.startsWith("--json=")) {
        // The command line starts ranks that are processes with --join.
        text.append(' ').append(argument.equals("--join") ? "--processes" : argument);
      }
    }
    return text.toString();
  }

  private static void make(Path repository, Path output) throws IOException {
    Path pages = Files.createDirectories(output.resolve("docs/performance"));
    List<Path> machines;
    try (Stream<Path> directories = Files.list(repository.resolve(RESULTS))) {
      machines = directories.filter(Files::isDirectory).sorted().toList();
    }
    String picture = null;
    for (Path directory : machines) {
      Machine machine = Machine.read(directory);
      String page = new MachinePage(machine).markdown();
      long lines = page.lines().count();
      if (lines > MAX_LINES) {
        throw new IllegalStateException(
            machine.name() + ": the page has " + lines + " lines, at most " + MAX_LINES);
      }
      Files.writeString(pages.resolve(machine.name() + ".md"), page);
      for (Map<String, Object> recorded : machine.recorded().values()) {
        Picture drawing = new Picture(recorded);
        if (!drawing.isEmpty()) {
          picture = drawing.svg();
        }
      }
    }
    if (picture != null) {
      Files.writeString(output.resolve("docs").resolve(PICTURE), picture);
    }
  }
}
