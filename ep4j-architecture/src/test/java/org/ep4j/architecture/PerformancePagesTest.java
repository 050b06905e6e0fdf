package org.ep4j.architecture;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.jr.ob.JSON;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.spi.ToolProvider;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The pages of machines are what benchmarks/pages/PerformancePages.java makes of the committed
 * files.
 */
class PerformancePagesTest {
  private static final Path REPOSITORY = Repository.repository();

  private static final Path PROGRAM = REPOSITORY.resolve("benchmarks/pages");

  @TempDir private static Path classes;

  @TempDir private Path made;

  @BeforeAll
  static void compile() {
    ToolProvider javac = ToolProvider.findFirst("javac").orElseThrow();
    String source = PROGRAM.resolve("PerformancePages.java").toString();
    int status =
        javac.run(
            System.out,
            System.err,
            "--class-path",
            libraries(),
            "-d",
            classes.toString(),
            "--source-path",
            PROGRAM.toString(),
            source);
    assertThat(status).isZero();
  }

  @Test
  void pagesAreMadeFromTheResults() throws Exception {
    run("make", REPOSITORY.toString(), made.toString());

    Map<String, String> written = pages(REPOSITORY);
    assertThat(written).hasSizeGreaterThan(3);
    assertThat(pages(made)).containsOnlyKeys(written.keySet());
    pages(made)
        .forEach(
            (name, page) ->
                assertThat(written.get(name)).as("run tools/performance-pages").isEqualTo(page));
  }

  /** A file of each kind that benchmarks/gpu-tables.sh writes becomes a table. */
  @Test
  void everyKindOfFileBecomesATable() throws Exception {
    String gpu = ", \"sms\": 24, \"backend\": \"direct\", \"host_us\": [3.0, 4.0]";
    String nccl = "\"op\": \"combine\", \"sms\": 24, \"backend\": \"nccl\"";
    String nodes = "{\"scale_out_gbps\": 35.7, \"percent_of_ceiling\": 97.2, \"proxy_cores\": 1.4}";
    String wire = "{\"gbps_each_way\": 0.5, \"percent_of_wire\": 62.0}";

    run(
        "add",
        made.toString(),
        "h100-x2",
        artifact("ht", "ht", "\"op\": \"dispatch\", \"kernel_median_us\": 198.25" + gpu),
        artifact("ll-128", "ll", "\"op\": \"ll_pair\", \"as\": \"graph\", \"tokens\": 128" + gpu),
        artifact("backends-ht", "ht", "\"op\": \"combine\"" + gpu, nccl),
        artifact("nodes-ht", "ht", "\"op\": \"dispatch\", \"nodes\": " + nodes + gpu),
        artifact("nodes-host", "ht", "\"op\": \"dispatch\", \"between_nodes\": " + wire),
        artifact("host", "ll", "\"op\": \"ll_dispatch\""),
        artifact("put", "", "\"way\": \"stores\", \"gbps\": 317.0"));
    run("make", made.toString(), made.toString());

    assertThat(Files.readString(made.resolve("docs/performance/h100-x2.md")))
        .contains("# 2 × H100, 32 cores\n")
        .contains("| `ht`: 2 threads | 24 | 208 (198) |")
        .contains("| `ll-128`: 128 tokens, 2 threads | 24 | 208 |")
        .contains("| combine BF16 | 208 | 208 |")
        .contains("| `nodes-ht` | dispatch BF16 | 24 | 208 | 35.7 | 97 % | 1.40 |")
        .contains("| `nodes-host` | dispatch BF16 | auto | 208 | 0.50 | 62 % | – |")
        .contains("| `host`: 2 threads, 128 tokens | low-latency dispatch BF16 | 208 | 201 | 220 |")
        .contains("## `put`\n")
        .contains("| `ht` | 2026-11-25T10:00:00Z | 0123456789 | 25 | `./ep4j bench ht` |");
    assertThat(made.resolve("benchmarks/results/h100-x2/ht.json"))
        .content()
        .doesNotContain("host_us");
  }

  /** Writes a file whose results hold these fields and those that all results have. */
  private String artifact(String name, String kind, String... results) throws Exception {
    String common =
        "\"dtype\": \"bf16\", \"median_us\": 208.25, \"min_us\": 201.0, \"p99_us\": 220.0,"
            + " \"logical_gbps\": 310.0, \"iterations\": 60";
    List<String> whole = Stream.of(results).map(r -> "{" + r + ", " + common + "}").toList();
    String configuration =
        kind.isEmpty()
            ? ""
            : """
            "configuration": {"kind": "KIND", "tokens": 4096, "ll_tokens": [128], "hidden": 7168,
              "topk": 8, "experts": 256, "layout": "flat", "mode": "exact", "routing": "uniform",
              "ranks": 2, "ranks_are": "threads"},
            """
                .replace("KIND", kind);
    Path file = made.resolve(name + ".json");
    Files.writeString(
        file,
        """
        {"ep4j": "0", "git": "0123456789abcdef", "time": "2026-11-25T10:00:00Z",
         "environment": {"java": "25", "cpu": "Xeon", "cores": 32,
           "flags": ["--module", "org.ep4j.cli/org.ep4j.cli.Main", "bench", "ht", "--json", "x"],
           "gpus": [{"name": "H100"}, {"name": "H100"}]},
         %s "results": [%s]}
        """
            .formatted(configuration, String.join(", ", whole)));
    return file.toString();
  }

  /** Runs the program in this JVM: its start takes longer than its work. */
  private static void run(String... arguments) throws Exception {
    URL[] urls = {classes.toUri().toURL()};
    try (URLClassLoader loader = new URLClassLoader(urls, JSON.class.getClassLoader())) {
      Method main = loader.loadClass("PerformancePages").getMethod("main", String[].class);
      main.invoke(null, (Object) arguments);
    }
  }

  /** The libraries of the program, from the class path of the tests. */
  private static String libraries() {
    return Stream.of(JSON.class, JsonFactory.class)
        .map(type -> type.getProtectionDomain().getCodeSource().getLocation().getPath())
        .collect(Collectors.joining(File.pathSeparator));
  }

  private static Map<String, String> pages(Path root) throws IOException {
    Map<String, String> pages = new TreeMap<>();
    try (Stream<Path> files = Files.list(root.resolve("docs/performance"))) {
      for (Path file : files.toList()) {
        pages.put(file.getFileName().toString(), Files.readString(file));
      }
    }
    pages.put("performance.svg", Files.readString(root.resolve("docs/performance.svg")));
    return pages;
  }
}
