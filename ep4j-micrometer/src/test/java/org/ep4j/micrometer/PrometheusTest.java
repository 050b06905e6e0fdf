package org.ep4j.micrometer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.jr.ob.JSON;
import com.sun.net.httpserver.HttpServer;
import io.micrometer.core.instrument.Tags;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.ExpertBuffer;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.snakeyaml.engine.v2.api.Load;
import org.snakeyaml.engine.v2.api.LoadSettings;

/**
 * A job of three ranks, scraped by a real Prometheus, which answers every query of the dashboard
 * and of the alert rules. Rank 1 comes late to every operation, experts of rank 0 get three
 * quarters of the tokens, and one operation times out.
 */
class PrometheusTest {
  private static final Path DOCUMENTS =
      Path.of("").toAbsolutePath().resolveSibling("docs/observability");

  private static final Duration LIMIT = Duration.ofSeconds(60);

  /** By which rank 1 is late: longer than a loaded machine keeps another rank from its core. */
  private static final int LATE_MILLIS = 40;

  /** After which the awaited operation times out. Pauses of a loaded machine are shorter. */
  private static final Duration DEADLINE = Duration.ofSeconds(5);

  /** Not in a job of threads: it has no RDMA ports. */
  private static final String PORTS = "ep4j_wire_sent_bytes_total";

  private static final String HOSTILE = "a\"} 1\nep4j_memory_bytes{rank=\"9\\\u2028 \uD83D\uDE00é";

  private final PrometheusMeterRegistry registry =
      new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);

  private final PrometheusMeterRegistry hostile =
      new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);

  private static final int STEP = 0;
  private static final int TIME_OUT = 1;
  private static final int END = 2;

  /** What the job does next; rank 0 reads it for all ranks. */
  private final AtomicInteger next = new AtomicInteger(STEP);

  /** Why the job ended early; null while it runs. */
  private volatile @Nullable Throwable failure;

  private String server = "";

  /** Output of Prometheus; null before its start. */
  private @Nullable Path log;

  @Test
  void prometheusAnswersEveryQueryOfDashboardAndRules(@TempDir Path scratch) throws Exception {
    assumeTrue(
        Boolean.getBoolean("ep4j.full"), "takes 25 seconds of two cores; -Dep4j.full=true runs it");
    for (String program : List.of("prometheus", "promtool")) {
      assumeTrue(
          onPath(program) != null,
          "QUERIES WERE NOT TESTED: " + program + " is not installed (apt install prometheus)");
    }
    Path rules = DOCUMENTS.resolve("alerts.yml");
    assertThat(output("promtool", "check", "rules", rules.toString())).contains("SUCCESS");

    HttpServer pages =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    serve(pages, "/metrics", registry);
    serve(pages, "/hostile", hostile);
    pages.start();
    Thread job =
        Thread.ofPlatform()
            .name("job")
            .uncaughtExceptionHandler((thread, cause) -> failure = cause)
            .start(this::runJob);
    Process prometheus = start(scratch, pages.getAddress().getPort(), rules);
    try {
      await("max(ep4j_operations_total) > 50");
      await("min(count_over_time(ep4j_timeouts_total[1m])) > 4");
      next.set(TIME_OUT);
      // The page with hostile tags counts it, too.
      await("sum(ep4j_timeouts_total{job=\"ep4j\"}) == 1");
      await("min(ep4j_operation_period_seconds) > 0");
      await("job_peer:ep4j_lateness_seconds:median > 0");
      // Rates look back 10 seconds, and increases need the scrapes after the timeout.
      Thread.sleep(3000);

      checkDashboard();
      checkRules();
      checkHostileTags();
      assertThat(failure).isNull();
      assertThat(job.isAlive()).isTrue();
    } finally {
      next.set(END);
      boolean ended = job.join(LIMIT);
      prometheus.destroy();
      if (!prometheus.waitFor(10, TimeUnit.SECONDS)) {
        prometheus.destroyForcibly();
      }
      pages.stop(0);
      assertThat(ended).isTrue();
    }
  }

  private void checkDashboard() throws IOException {
    String text = Files.readString(DOCUMENTS.resolve("grafana-dashboard.json"));
    List<String> queries = new ArrayList<>();
    collect(JSON.std.mapFrom(text), "expr", queries);
    assertThat(queries).hasSizeGreaterThan(20);
    for (String query : queries) {
      String asked = query.replace("$job", ".+").replace("$__rate_interval", "10s");
      if (query.contains(PORTS)) {
        assertThat(query(asked)).as(query).isEmpty();
      } else {
        assertThat(query(asked)).as(query).isNotEmpty();
      }
    }
    assertThat(get("/api/v1/label/job/values?match[]=" + encoded("ep4j_memory_bytes")).get("data"))
        .isEqualTo(List.of("ep4j", "hostile"));
  }

  private void checkRules() throws IOException {
    String text = Files.readString(DOCUMENTS.resolve("alerts.yml"));
    Object document = new Load(LoadSettings.builder().build()).loadFromString(text);
    Map<String, String> alerts = new TreeMap<>();
    alerts(document, alerts);
    Map<String, Set<String>> firing = new TreeMap<>();
    alerts.forEach(
        (alert, expression) -> {
          Set<String> labels = new TreeSet<>();
          for (Map<?, ?> series : query(expression)) {
            Map<?, ?> metric = (Map<?, ?>) Objects.requireNonNull(series.get("metric"));
            if ("ep4j".equals(metric.get("job"))) {
              labels.add("peer " + metric.get("peer") + ", rank " + metric.get("rank"));
            }
          }
          firing.put(alert, labels);
        });
    assertThat(firing)
        .containsOnlyKeys(
            "Ep4jSlowRank",
            "Ep4jRankAwaitedByAll",
            "Ep4jTimeout",
            "Ep4jStalled",
            "Ep4jRankMasked",
            "Ep4jMemoryGrows",
            "Ep4jAbandonedThreads",
            "Ep4jImbalance");
    firing.values().removeIf(Set::isEmpty);
    assertThat(firing)
        .isEqualTo(
            Map.of(
                "Ep4jSlowRank", Set.of("peer 1, rank null"),
                "Ep4jRankAwaitedByAll", Set.of("peer 1, rank null"),
                "Ep4jTimeout", Set.of("peer null, rank 0"),
                "Ep4jImbalance", Set.of("peer null, rank null")));
    // Prometheus has loaded the file, and evaluates it without an error.
    List<String> health = new ArrayList<>();
    collect(get("/api/v1/rules"), "health", health);
    assertThat(health).hasSizeGreaterThan(alerts.size()).containsOnly("ok");
  }

  /** Prometheus has read the whole page, and the value of the tag is what the user passed. */
  private void checkHostileTags() {
    for (Map<?, ?> series : query("ep4j_memory_bytes{job=\"hostile\"}")) {
      Map<?, ?> metric = (Map<?, ?>) Objects.requireNonNull(series.get("metric"));
      assertThat(metric.get("team_name")).isEqualTo(HOSTILE);
      assertThat(String.valueOf(metric.get("long"))).hasSize(50_000);
      assertThat(metric.get("rank")).isEqualTo("0");
    }
    assertThat(query("ep4j_memory_bytes{job=\"hostile\"}")).hasSize(2);
    assertThat(query("up == 1")).hasSize(2);
  }

  private void runJob() {
    ThreadRanks.run(
        3,
        group -> {
          try (ExpertBuffer original = ExpertBuffer.open(group, SmallJob.config(DEADLINE));
              ExpertBufferMetrics metrics = ExpertBufferMetrics.of(original);
              ExpertBufferMetrics named =
                  ExpertBufferMetrics.builder(original)
                      .tags(Tags.of("team name", HOSTILE, "long", "x".repeat(50_000)))
                      .build()) {
            metrics.bindTo(registry);
            if (group.rank() == 0) {
              named.bindTo(hostile);
            }
            run(group, metrics.buffer());
          }
        });
  }

  private void run(Group group, ExpertBuffer buffer) throws InterruptedException {
    while (true) {
      byte[] mine = {next.byteValue()};
      int now = group.allGather(mine, LIMIT)[0][0];
      if (now == END) {
        return;
      }
      if (now == TIME_OUT) {
        if (group.rank() == 0) {
          assertThatThrownBy(() -> SmallJob.step(buffer)).isInstanceOf(PeerTimeoutException.class);
          next.compareAndSet(TIME_OUT, STEP);
        }
        group.barrier(LIMIT);
        buffer.reset();
      } else {
        if (group.rank() == 1) {
          Thread.sleep(LATE_MILLIS);
        }
        SmallJob.step(buffer);
        SmallJob.lowLatencyStep(buffer);
        buffer.barrier();
      }
    }
  }

  private static void serve(HttpServer server, String path, PrometheusMeterRegistry registry) {
    server.createContext(
        path,
        exchange -> {
          byte[] page = registry.scrape().getBytes(StandardCharsets.UTF_8);
          exchange.getResponseHeaders().add("Content-Type", "text/plain; version=0.0.4");
          exchange.sendResponseHeaders(200, page.length);
          try (OutputStream body = exchange.getResponseBody()) {
            body.write(page);
          }
        });
  }

  private Process start(Path scratch, int port, Path rules) throws IOException {
    Path config =
        Files.writeString(
            scratch.resolve("prometheus.yml"),
            """
            global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
            rule_files: ['%s']
            scrape_configs:
              - job_name: ep4j
                static_configs: [{targets: ['127.0.0.1:%d']}]
              - job_name: hostile
                metrics_path: /hostile
                static_configs: [{targets: ['127.0.0.1:%d']}]
            """
                .formatted(rules, port, port));
    int own;
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      own = free.getLocalPort();
    }
    server = "http://127.0.0.1:" + own;
    log = scratch.resolve("log");
    return new ProcessBuilder(
            "prometheus",
            "--config.file=" + config,
            "--storage.tsdb.path=" + scratch.resolve("data"),
            "--web.listen-address=127.0.0.1:" + own,
            "--log.level=warn")
        .redirectErrorStream(true)
        .redirectOutput(log.toFile())
        .start();
  }

  /** Asks until the answer is not empty. */
  private void await(String query) throws InterruptedException {
    long end = System.nanoTime() + LIMIT.toNanos();
    while (System.nanoTime() < end) {
      if (failure != null) {
        throw new AssertionError("The job ended before the answer to " + query, failure);
      }
      try {
        if (!query(query).isEmpty()) {
          return;
        }
      } catch (UncheckedIOException e) {
        // It has not started yet.
      }
      Thread.sleep(200);
    }
    throw new AssertionError(
        "Prometheus has no answer to "
            + query
            + "; its targets: "
            + targets()
            + "; its log: "
            + log()
            + "; the page: "
            + registry.scrape());
  }

  /** Health and last error of each target, as Prometheus sees them. */
  private String targets() {
    try {
      return get("/api/v1/targets").toString();
    } catch (IOException e) {
      return e.toString();
    }
  }

  private String log() {
    try {
      return log == null ? "none" : Files.readString(log);
    } catch (IOException e) {
      return e.toString();
    }
  }

  private List<Map<?, ?>> query(String query) {
    try {
      Map<?, ?> answer = get("/api/v1/query?query=" + encoded(query));
      assertThat(answer.get("status")).as("%s: %s", query, answer).isEqualTo("success");
      Map<?, ?> data = (Map<?, ?>) Objects.requireNonNull(answer.get("data"));
      List<Map<?, ?>> series = new ArrayList<>();
      for (Object each : (List<?>) Objects.requireNonNull(data.get("result"))) {
        series.add((Map<?, ?>) each);
      }
      return series;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private Map<?, ?> get(String path) throws IOException {
    HttpURLConnection connection =
        (HttpURLConnection) URI.create(server + path).toURL().openConnection();
    connection.setConnectTimeout(5000);
    connection.setReadTimeout(5000);
    // Bad queries are answered with 400 and the reason.
    boolean good = connection.getResponseCode() == 200;
    try (InputStream in = good ? connection.getInputStream() : connection.getErrorStream()) {
      return JSON.std.mapFrom(in);
    }
  }

  private static String encoded(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8);
  }

  /** All texts under a key, in a tree of maps and lists. */
  private static void collect(@Nullable Object tree, String key, List<String> found) {
    if (tree instanceof Map<?, ?> map) {
      map.forEach(
          (name, value) -> {
            if (key.equals(name)) {
              found.add(String.valueOf(value));
            } else {
              collect(value, key, found);
            }
          });
    } else if (tree instanceof List<?> list) {
      list.forEach(each -> collect(each, key, found));
    }
  }

  private static void alerts(@Nullable Object tree, Map<String, String> found) {
    if (tree instanceof Map<?, ?> map) {
      if (map.containsKey("alert")) {
        found.put(String.valueOf(map.get("alert")), String.valueOf(map.get("expr")));
      }
      map.values().forEach(each -> alerts(each, found));
    } else if (tree instanceof List<?> list) {
      list.forEach(each -> alerts(each, found));
    }
  }

  private static @Nullable Path onPath(String program) {
    for (String place : System.getenv().getOrDefault("PATH", "").split(":", -1)) {
      Path file = Path.of(place, program);
      if (Files.isExecutable(file)) {
        return file;
      }
    }
    return null;
  }

  private static String output(String... command) throws IOException, InterruptedException {
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(process.waitFor(30, TimeUnit.SECONDS)).isTrue();
    return text;
  }
}
