package org.ep4j.micrometer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.composite.CompositeMeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.ep4j.BufferStatistics;
import org.ep4j.ExpertBuffer;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.observe.RankObservation;
import org.ep4j.observe.WorldObservation;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** Meters of real buffers of the host engine, on threads. */
class ExpertBufferMetricsTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(20);
  private static final Duration SHORT = Duration.ofMillis(300);

  /** Reads are at most this old, and a bit. */
  private static final long AFTER_INTERVAL_MILLIS = 550;

  /** A line of the text format: a name, labels in quotes, a number. */
  private static final Pattern SAMPLE =
      Pattern.compile(
          "[a-z0-9_]+\\{(?:[a-zA-Z_][a-zA-Z0-9_]*=\"(?:[^\"\\\\]|\\\\[\"\\\\n])*+\",?)+} [-+0-9.eENaInf]+");

  /** A test of one rank of two. */
  @FunctionalInterface
  private interface Body {
    void run(Group group, ExpertBuffer original, ExpertBufferMetrics metrics) throws Exception;
  }

  private static void onTwoRanks(Duration timeout, Body body) {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer original = ExpertBuffer.open(group, SmallJob.config(timeout));
              ExpertBufferMetrics metrics = ExpertBufferMetrics.of(original)) {
            body.run(group, original, metrics);
          }
        });
  }

  @Test
  void everyMeterHasItsNameUnitAndTags() {
    onTwoRanks(
        TIMEOUT,
        (group, original, metrics) -> {
          MeterRegistry registry = new SimpleMeterRegistry();
          metrics.bindTo(registry);
          Set<String> bound = new TreeSet<>();
          for (Meter meter : registry.getMeters()) {
            Meter.Id id = meter.getId();
            BufferMeter of = of(id.getName());
            bound.add(of.id);
            assertThat(id.getBaseUnit()).isEqualTo(of.unit.isEmpty() ? null : of.unit);
            assertThat(id.getDescription()).isEqualTo(of.meaning);
            assertThat(id.getTags().stream().map(Tag::getKey))
                .as(of.id)
                .containsExactlyInAnyOrderElementsOf(
                    Tags.of(of.tags().stream().map(key -> Tag.of(key, "")).toList())
                        .and("rank", "")
                        .stream()
                        .map(Tag::getKey)
                        .toList());
            assertThat(id.getTag("rank")).isEqualTo(String.valueOf(group.rank()));
          }
          // A job of threads has no ports.
          assertThat(bound)
              .isEqualTo(
                  Arrays.stream(BufferMeter.values())
                      .filter(meter -> meter != BufferMeter.WIRE_SENT)
                      .map(meter -> meter.id)
                      .collect(Collectors.toCollection(TreeSet::new)));
        });
  }

  private static BufferMeter of(String name) {
    return Arrays.stream(BufferMeter.values())
        .filter(meter -> meter.id.equals(name))
        .findFirst()
        .orElseThrow(() -> new AssertionError(name + " is no meter of ep4j"));
  }

  @Test
  void valuesAreThoseOfTheBuffer() {
    onTwoRanks(
        TIMEOUT,
        (group, original, metrics) -> {
          MeterRegistry registry = new SimpleMeterRegistry();
          metrics.bindTo(registry);
          for (int i = 0; i < 40; i++) {
            SmallJob.step(metrics.buffer());
          }
          SmallJob.lowLatencyStep(metrics.buffer());
          metrics.sample();
          BufferStatistics statistics = original.statistics();
          RankObservation seen = original.observe();
          Thread.sleep(AFTER_INTERVAL_MILLIS);

          assertThat(operations(registry, "dispatch", "high_throughput")).isEqualTo(40);
          assertThat(operations(registry, "combine", "high_throughput")).isEqualTo(40);
          assertThat(operations(registry, "dispatch", "low_latency")).isEqualTo(1);
          assertThat(operations(registry, "combine", "low_latency")).isEqualTo(1);
          assertThat(counter(registry, BufferMeter.SENT_ROWS)).isEqualTo(statistics.rowsSent());
          assertThat(counter(registry, BufferMeter.RECEIVED_ROWS))
              .isEqualTo(statistics.rowsReceived())
              .isPositive();
          assertThat(counter(registry, BufferMeter.SENT_PAYLOAD))
              .isEqualTo(statistics.payloadBytesSent())
              .isPositive();
          assertThat(gauge(registry, BufferMeter.MEMORY, "scope", "symmetric"))
              .isEqualTo((double) statistics.symmetricBytes())
              .isPositive();
          assertThat(gauge(registry, BufferMeter.MEMORY, "scope", "private"))
              .isEqualTo((double) statistics.privateBytes());
          for (int local = 0; local < seen.localExperts(); local++) {
            String expert = String.valueOf(seen.expert(local));
            assertThat(counter(registry, BufferMeter.EXPERT_TOKENS, "expert", expert))
                .as("tokens of expert %s", expert)
                .isEqualTo(seen.tokens(local));
          }
          WorldObservation world = WorldObservation.of(List.of(seen));
          int other = 1 - group.rank();
          assertThat(gauge(registry, BufferMeter.WAIT, "peer", String.valueOf(other)))
              .isEqualTo(world.waitedNanos(group.rank(), other) / 1e9);
          assertThat(gauge(registry, BufferMeter.PERIOD))
              .isEqualTo(world.periodNanos() / 1e9)
              .isPositive();
          double longest = gauge(registry, BufferMeter.LONGEST_WAIT);
          assertThat(longest).isEqualTo(world.waitedNanos(group.rank(), other) / 1e9);
          assertThat(gauge(registry, BufferMeter.LONGEST_WAIT_PEER))
              .isEqualTo(Double.valueOf(longest > 0 ? other : Double.NaN));
          // Choices of experts 0 to 3 are 3, 2, 1, 0, those of experts 4 to 7 are 1, 1, 0, 0.
          assertThat(gauge(registry, BufferMeter.EXPERT_BALANCEDNESS)).isEqualTo(0.5);
          assertThat(gauge(registry, BufferMeter.MASKED_RANKS)).isZero();
          assertThat(gauge(registry, BufferMeter.STATISTICS_AGE)).isBetween(0.5, 60.0);
        });
  }

  @Test
  void callsAreTimed() {
    onTwoRanks(
        TIMEOUT,
        (group, original, metrics) -> {
          MeterRegistry first = new SimpleMeterRegistry();
          MeterRegistry second = new SimpleMeterRegistry();
          metrics.bindTo(first);
          metrics.bindTo(second);
          for (int i = 0; i < 3; i++) {
            SmallJob.step(metrics.buffer());
          }
          SmallJob.lowLatencyStep(metrics.buffer());
          metrics.buffer().barrier();
          SmallJob.step(original);
          for (MeterRegistry registry : List.of(first, second)) {
            assertThat(timer(registry, Call.DISPATCH).count()).isEqualTo(3);
            assertThat(timer(registry, Call.DISPATCH).totalTime(TimeUnit.NANOSECONDS)).isPositive();
            assertThat(timer(registry, Call.COMBINE).count()).isEqualTo(3);
            assertThat(timer(registry, Call.LOW_LATENCY_DISPATCH).count()).isEqualTo(1);
            assertThat(timer(registry, Call.LOW_LATENCY_COMBINE).count()).isEqualTo(1);
            assertThat(timer(registry, Call.BARRIER).count()).isEqualTo(1);
            assertThat(timer(registry, Call.RESET).count()).isZero();
          }
        });
  }

  @Test
  void aTimeoutIsCountedAndNamedAndSoIsTheRecovery() {
    onTwoRanks(
        SHORT,
        (group, original, metrics) -> {
          MeterRegistry registry = new SimpleMeterRegistry();
          metrics.bindTo(registry);
          assertThat(gauge(registry, BufferMeter.TIMEOUT_PEER)).isNaN();
          if (group.rank() == 0) {
            assertThatThrownBy(() -> SmallJob.step(metrics.buffer()))
                .isInstanceOf(PeerTimeoutException.class);
          }
          group.barrier(TIMEOUT);
          metrics.buffer().reset();
          pause(AFTER_INTERVAL_MILLIS);
          assertThat(counter(registry, BufferMeter.TIMEOUTS)).isEqualTo(1 - group.rank());
          assertThat(gauge(registry, BufferMeter.TIMEOUT_PEER))
              .isEqualTo(Double.valueOf(group.rank() == 0 ? 1 : Double.NaN));
          assertThat(counter(registry, BufferMeter.FAILURES)).isZero();
          assertThat(timer(registry, Call.DISPATCH).count()).isZero();
          assertThat(timer(registry, Call.RESET).count()).isEqualTo(1);
          SmallJob.step(metrics.buffer());
          assertThat(timer(registry, Call.DISPATCH).count()).isEqualTo(1);
        });
  }

  @Test
  void aTimeoutThatAnEventThrowsIsCounted() {
    onTwoRanks(
        SHORT,
        (group, original, metrics) -> {
          MeterRegistry registry = new SimpleMeterRegistry();
          metrics.bindTo(registry);
          if (group.rank() == 0) {
            Event event = SmallJob.begin(metrics.buffer());
            for (int i = 0; i < 2; i++) {
              assertThatThrownBy(event::await).isInstanceOf(PeerTimeoutException.class);
            }
          }
          group.barrier(TIMEOUT);
          pause(AFTER_INTERVAL_MILLIS);
          assertThat(counter(registry, BufferMeter.TIMEOUTS)).isEqualTo(1 - group.rank());
          metrics.buffer().reset();
        });
  }

  @Test
  void errorsOfMachinesAreFailuresThoseOfTheCallerAreNot() {
    Failures failures = new Failures();
    failures.count(new IllegalArgumentException("a shape"));
    failures.count(new IllegalStateException("a handle"));
    assertThat(failures.counted()).isZero();

    failures.count(new Ep4jException(ErrorCode.OPERATION_INTERRUPTED, "an interrupt"));
    assertThat(failures.counted()).isEqualTo(1);
  }

  /** Statistics of a rank belong to its thread: a scrape that asked for them would end calls. */
  @Test
  void scrapesDisturbNoOperation() {
    AtomicInteger running = new AtomicInteger(2);
    Queue<Throwable> failed = new ConcurrentLinkedQueue<>();
    PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    onTwoRanks(
        TIMEOUT,
        (group, original, metrics) -> {
          metrics.bindTo(registry);
          group.barrier(TIMEOUT);
          Thread scraper =
              Thread.ofPlatform()
                  .daemon()
                  .start(
                      () -> {
                        while (running.get() > 0) {
                          scrape(registry, failed);
                          pause(1);
                        }
                      });
          for (int i = 0; i < 300; i++) {
            SmallJob.step(metrics.buffer());
            Thread.sleep(2);
          }
          running.decrementAndGet();
          assertThat(scraper.join(TIMEOUT)).isTrue();
          metrics.sample();
          // The registry has the meters of both ranks.
          String[] own = {
            "rank", String.valueOf(group.rank()), "operation", "dispatch", "mode", "high_throughput"
          };
          assertThat(counter(registry, BufferMeter.OPERATIONS, own)).isPositive();
        });
    assertThat(failed).isEmpty();
  }

  private static void scrape(PrometheusMeterRegistry registry, Queue<Throwable> failed) {
    try {
      registry.scrape();
    } catch (RuntimeException e) {
      failed.add(e);
    }
  }

  @Test
  void aScrapeDoesNotWaitForAnOperationThatHangs() {
    CountDownLatch scraped = new CountDownLatch(1);
    onTwoRanks(
        TIMEOUT,
        (group, original, metrics) -> {
          if (group.rank() == 1) {
            // Rank 0 waits inside its barrier until the scrape has ended.
            assertThat(scraped.await(10, TimeUnit.SECONDS)).isTrue();
            metrics.buffer().barrier();
            return;
          }
          PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
          metrics.bindTo(registry);
          Thread.ofPlatform()
              .start(
                  () -> {
                    pause(AFTER_INTERVAL_MILLIS);
                    if (registry.scrape().contains("ep4j_operation_wait_seconds")) {
                      scraped.countDown();
                    }
                  });
          metrics.buffer().barrier();
          assertThat(timer(registry, Call.BARRIER).count()).isEqualTo(1);
        });
  }

  private static void pause(long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  @Test
  void closingRemovesTheMetersAndNoOthers() {
    onTwoRanks(
        TIMEOUT,
        (group, original, metrics) -> {
          MeterRegistry first = new SimpleMeterRegistry();
          CompositeMeterRegistry second =
              new CompositeMeterRegistry().add(new SimpleMeterRegistry());
          PrometheusMeterRegistry third = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
          for (MeterRegistry registry : List.of(first, second, third)) {
            registry.counter("of.the.program").increment();
            metrics.bindTo(registry);
            assertThat(registry.getMeters()).hasSizeGreaterThan(20);
          }
          metrics.close();
          metrics.close();
          for (MeterRegistry registry : List.of(first, second, third)) {
            assertThat(registry.getMeters()).hasSize(1);
          }
          assertThat(third.scrape()).contains("of_the_program").doesNotContain("ep4j");
          metrics.sample();
          SmallJob.step(metrics.buffer());
          assertThatThrownBy(() -> metrics.bindTo(first))
              .isInstanceOfSatisfying(
                  IllegalUseException.class,
                  e -> assertThat(e.errorCode()).isEqualTo(ErrorCode.METRICS_STATE));
        });
  }

  @Test
  void closingTheBufferRemovesTheMeters() {
    onTwoRanks(
        TIMEOUT,
        (group, original, metrics) -> {
          MeterRegistry registry = new SimpleMeterRegistry();
          metrics.bindTo(registry);
          metrics.buffer().close();
          assertThat(registry.getMeters()).isEmpty();
          assertThatThrownBy(original::statistics).isInstanceOf(IllegalUseException.class);
        });
  }

  /** Micrometer would return the meters of the first buffer, and the second had none. */
  @Test
  void equalTagsOfTwoBuffersAreRefused() {
    onTwoRanks(
        TIMEOUT,
        (group, original, metrics) -> {
          MeterRegistry registry = new SimpleMeterRegistry();
          metrics.bindTo(registry);
          int bound = registry.getMeters().size();
          try (ExpertBufferMetrics second = ExpertBufferMetrics.of(original)) {
            assertThatThrownBy(() -> second.bindTo(registry))
                .isInstanceOfSatisfying(
                    IllegalUseException.class,
                    e -> assertThat(e.errorCode()).isEqualTo(ErrorCode.METRICS_STATE));
          }
          assertThat(registry.getMeters()).hasSize(bound);
          try (ExpertBufferMetrics third =
              ExpertBufferMetrics.builder(original).tags(Tags.of("layer", "3")).build()) {
            third.bindTo(registry);
            assertThat(registry.getMeters()).hasSize(2 * bound);
          }
          assertThat(registry.getMeters()).hasSize(bound);
        });
  }

  @Test
  void badSettingsAreRefused() {
    onTwoRanks(
        TIMEOUT,
        (group, original, metrics) -> {
          var builder = ExpertBufferMetrics.builder(original);
          for (String key :
              List.of("rank", "peer", "expert", "port", "mode", "call", "le", "quantile", "")) {
            assertThatThrownBy(() -> builder.tags(Tags.of(key, "x")))
                .isInstanceOfSatisfying(
                    InvalidArgumentException.class,
                    e -> assertThat(e.errorCode()).isEqualTo(ErrorCode.METRICS_SETTING));
          }
          for (String other : List.of("a_b", "a b", "a.b", "aäb")) {
            assertThatThrownBy(() -> builder.tags(List.of(Tag.of("a-b", ""), Tag.of(other, ""))))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageContaining("'" + other + "'");
          }
          assertThatThrownBy(() -> builder.maxExperts(0))
              .isInstanceOf(InvalidArgumentException.class)
              .hasMessageContaining("maxExperts = 0");
          assertThatThrownBy(() -> builder.maxPeers(-1))
              .isInstanceOf(InvalidArgumentException.class);
        });
  }

  @Test
  void limitsBoundTheNumberOfMeters() {
    ThreadRanks.run(
        3,
        group -> {
          try (ExpertBuffer original = ExpertBuffer.open(group, SmallJob.config(TIMEOUT));
              ExpertBufferMetrics metrics =
                  ExpertBufferMetrics.builder(original).maxExperts(1).maxPeers(1).build()) {
            MeterRegistry registry = new SimpleMeterRegistry();
            metrics.bindTo(registry);
            assertThat(registry.find(BufferMeter.WAIT.id).meters()).isEmpty();
            for (int i = 0; i < 20; i++) {
              SmallJob.step(metrics.buffer());
            }
            Thread.sleep(AFTER_INTERVAL_MILLIS);
            assertThat(gauge(registry, BufferMeter.PERIOD)).isPositive();
            assertThat(gauge(registry, BufferMeter.LONGEST_WAIT)).isNotNegative();
            RankObservation seen = original.observe();
            long all = 0;
            for (int local = 0; local < seen.localExperts(); local++) {
              all += seen.tokens(local);
            }
            long shown = 0;
            List<Meter> experts = List.copyOf(registry.find(BufferMeter.EXPERT_TOKENS.id).meters());
            for (Meter meter : experts) {
              shown += (long) ((FunctionCounter) meter).count();
            }
            assertThat(experts).hasSize(2);
            assertThat(shown).isEqualTo(all);
          }
        });
  }

  /** The CUDA engine has no observations: its buffer has the meters of its statistics alone. */
  @Test
  void anEngineThatRecordsNoWaitsHasTheOtherMeters() {
    onTwoRanks(
        TIMEOUT,
        (group, original, ignored) -> {
          try (ExpertBufferMetrics metrics = ExpertBufferMetrics.of(withoutWaits(original))) {
            PrometheusMeterRegistry registry =
                new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
            metrics.bindTo(registry);
            SmallJob.step(metrics.buffer());
            metrics.sample();
            for (BufferMeter meter : BufferMeter.values()) {
              assertThat(registry.find(meter.id).meters().isEmpty())
                  .as(meter.id)
                  .isEqualTo(
                      meter.origin == BufferMeter.Origin.OBSERVATION
                          || meter == BufferMeter.WIRE_SENT);
            }
            assertThat(operations(registry, "dispatch", "high_throughput")).isEqualTo(1);
            Thread.sleep(AFTER_INTERVAL_MILLIS);
            assertThat(registry.scrape()).contains("ep4j_memory_bytes");
          }
        });
  }

  /** A buffer of the host engine that refuses observe(), as those of the CUDA engine do. */
  private static ExpertBuffer withoutWaits(ExpertBuffer original) {
    return (ExpertBuffer)
        Proxy.newProxyInstance(
            ExpertBuffer.class.getClassLoader(),
            new Class<?>[] {ExpertBuffer.class},
            (proxy, method, arguments) -> {
              if (method.getName().equals("observe")) {
                throw new UnsupportedOperationException("records no waits");
              }
              try {
                return method.invoke(original, arguments);
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
            });
  }

  /** An asynchronous call is not followed by a sample, which would wait for its end. */
  @Test
  void samplesFollowSynchronousCallsOnly() {
    onTwoRanks(
        TIMEOUT,
        (group, original, metrics) -> {
          MeterRegistry registry = new SimpleMeterRegistry();
          metrics.bindTo(registry);
          Thread.sleep(1100);
          metrics.ended(Call.DISPATCH, System.nanoTime(), Execution.ASYNCHRONOUS);
          assertThat(gauge(registry, BufferMeter.STATISTICS_AGE)).isGreaterThan(1);
          metrics.ended(Call.DISPATCH, System.nanoTime(), Execution.SYNCHRONOUS);
          assertThat(gauge(registry, BufferMeter.STATISTICS_AGE)).isLessThan(1);
        });
  }

  /** Tags of the user reach a page that Prometheus reads: one line a sample, whatever they hold. */
  @Test
  void hostileTagsStayInsideTheirQuotes() {
    String hostile = "a\"} 1\nep4j_memory_bytes{rank=\"9\\\u2028\u0000 \uD83D\uDE00é{}=,";
    Tags tags =
        Tags.of(
            "team name",
            hostile,
            "1st",
            "x".repeat(5000),
            "größe",
            "",
            "a.b",
            "#",
            "Rank",
            "5",
            "__name__",
            "up");
    onTwoRanks(
        TIMEOUT,
        (group, original, ignored) -> {
          PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
          try (ExpertBufferMetrics metrics =
              ExpertBufferMetrics.builder(original).tags(tags).build()) {
            metrics.bindTo(registry);
            SmallJob.step(metrics.buffer());
            List<String> samples =
                Arrays.stream(registry.scrape().split("\n", -1))
                    .filter(line -> !line.startsWith("#") && !line.isEmpty())
                    .toList();
            // As docs/observability/README.md says: 40, and one for each expert and peer.
            assertThat(samples).hasSize(40 + SmallJob.EXPERTS / 2 + 1);
            assertThat(samples)
                .allMatch(line -> SAMPLE.matcher(line).matches())
                .allMatch(line -> line.contains("rank=\"" + group.rank() + "\""))
                .allMatch(line -> line.contains("team_name=\"a\\\"} 1\\nep4j_memory_bytes{"));
          }
          assertThat(registry.scrape()).doesNotContain("ep4j");
        });
  }

  private static long operations(MeterRegistry registry, String operation, String mode) {
    return counter(registry, BufferMeter.OPERATIONS, "operation", operation, "mode", mode);
  }

  private static long counter(MeterRegistry registry, BufferMeter meter, String... tags) {
    return (long) found(registry.find(meter.id).tags(tags).functionCounter()).count();
  }

  private static double gauge(MeterRegistry registry, BufferMeter meter, String... tags) {
    Gauge gauge = registry.find(meter.id).tags(tags).gauge();
    return found(gauge).value();
  }

  private static Timer timer(MeterRegistry registry, Call call) {
    return found(registry.find(call.timer.id).tags(call.tags()).timer());
  }

  private static <T> T found(@Nullable T meter) {
    return Objects.requireNonNull(meter, "the registry has no such meter");
  }
}
