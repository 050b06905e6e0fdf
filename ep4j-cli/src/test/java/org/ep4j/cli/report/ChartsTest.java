package org.ep4j.cli.report;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.DoubleUnaryOperator;
import java.util.stream.IntStream;
import org.assertj.core.api.InstanceOfAssertFactories;
import org.ep4j.cli.text.Json;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** The data that the script of a page draws. */
class ChartsTest {
  @Test
  void barsOfTimesHoldQuartilesAndEnds() throws Exception {
    Charts charts = new Charts();
    charts.times(run(i -> i).results());

    assertThat(row(charts))
        .containsEntry("median", 60.5)
        .containsEntry("q1", 30.0)
        .containsEntry("q3", 90.0)
        .containsEntry("low", 1.0)
        .containsEntry("high", 119.0)
        .containsEntry("ceiling", 50.0);
  }

  @Test
  void ratesAreOfAllRowsAndOfRowsFromOtherRanks() throws Exception {
    Charts charts = new Charts();
    charts.rates(run(i -> i).results());

    assertThat(row(charts)).containsEntry("logical", 210.5).containsEntry("remote", 105.25);
  }

  @Test
  void aShorterTimeIsAChangeBelowZeroAndFaster() throws Exception {
    RunArtifact first = run(i -> 1000 + i % 10);
    RunArtifact second = run(i -> 800 + i % 10);

    Map<String, Object> faster = change(first, second);
    assertThat((Double) faster.get("ratio")).isCloseTo(-20, within(0.5));
    assertThat((Double) faster.get("low")).isLessThanOrEqualTo((Double) faster.get("ratio"));
    assertThat((Double) faster.get("high")).isNegative();
    assertThat(faster.get("verdict")).isEqualTo("faster");

    Map<String, Object> slower = change(second, first);
    assertThat((Double) slower.get("ratio")).isCloseTo(25, within(0.5));
    assertThat((Double) slower.get("low")).isPositive();
    assertThat(slower.get("verdict")).isEqualTo("slower");

    assertThat(change(first, first).get("verdict")).isEqualTo("same");
  }

  @Test
  void sweepsOfSmsHaveALineForEachOperation() throws Exception {
    Charts charts = new Charts();
    charts.sweeps(RunArtifact.of("run", tree(SampleRuns.run(1000, "a machine"))).results());

    List<?> specs = (List<?>) ((Map<?, ?>) tree(charts.data())).get("charts");
    assertThat(specs).hasSize(2);
    assertThat((Map<?, ?>) specs.getFirst()).extracting("axis").isEqualTo("tokens of a rank");
    List<?> lines = list(((Map<?, ?>) specs.getLast()).get("rows"));
    assertThat(lines).extracting("label").containsExactly("dispatch bf16", "combine bf16");
    assertThat(lines.getFirst())
        .extracting("points")
        .asInstanceOf(InstanceOfAssertFactories.LIST)
        .extracting("x")
        .containsExactly(8.0, 16.0);
  }

  @Test
  void manyIterationsKeepTheShortestAndTheLongest() {
    double[] samples = IntStream.range(0, 10_000).mapToDouble(i -> 100 + i % 7).toArray();
    samples[1234] = 1;
    samples[4321] = 900;

    List<double[]> points = Charts.thinned(samples);

    assertThat(points).hasSizeLessThanOrEqualTo(500).contains(new double[] {1235, 1});
    assertThat(points).contains(new double[] {4322, 900});
    assertThat(points).isSortedAccordingTo((a, b) -> Double.compare(a[0], b[0]));
  }

  @Test
  void inAHeatMapOfManyRanksNeighboursShareACell() throws Exception {
    List<RecordedJob.Wait> waits =
        List.of(
            new RecordedJob.Wait(0, 129, 7),
            new RecordedJob.Wait(1, 129, 5),
            new RecordedJob.Wait(4, 5, 3));
    Charts charts = new Charts();
    String html = charts.waits(waits);

    assertThat(html).contains("A cell is 3 by 3 ranks");
    List<?> rows =
        list(
            ((Map<?, ?>) list(((Map<?, ?>) tree(charts.data())).get("charts")).getFirst())
                .get("rows"));
    assertThat(rows).hasSize(44);
    assertThat(rows).extracting("label").contains("0–2", "129–129");
    assertThat(list(fields(rows.getFirst()).get("values"))).hasSize(44).last().isEqualTo(7.0);
    assertThat(list(fields(rows.get(1)).get("values")).get(1)).isEqualTo(3.0);
    assertThat(charts.waits(List.of(new RecordedJob.Wait(0, 1, 0)))).isEmpty();
  }

  private static Map<String, Object> change(RunArtifact first, RunArtifact second)
      throws Exception {
    Charts charts = new Charts();
    charts.ratios(RunComparison.of(first, second));
    return row(charts);
  }

  /** The only row of the only chart. */
  private static Map<String, Object> row(Charts charts) throws Exception {
    List<?> specs = (List<?>) ((Map<?, ?>) tree(charts.data())).get("charts");
    assertThat(specs).hasSize(1);
    return fields(list(((Map<?, ?>) specs.getFirst()).get("rows")).getFirst());
  }

  private static List<?> list(@Nullable Object object) {
    return (List<?>) Objects.requireNonNull(object);
  }

  private static Map<String, Object> fields(Object object) {
    Map<String, Object> fields = new LinkedHashMap<>();
    ((Map<?, ?>) object).forEach((name, value) -> fields.put(String.valueOf(name), value));
    return fields;
  }

  /** What the script reads. */
  private static Object tree(Map<String, Object> data) throws Exception {
    return Objects.requireNonNull(Json.parse(Json.text(data)));
  }

  /** A run of one operation, whose iterations 1 to 120 take these times. */
  private static RunArtifact run(DoubleUnaryOperator micros) throws Exception {
    double[] samples = IntStream.rangeClosed(1, 120).mapToDouble(micros::applyAsDouble).toArray();
    Map<String, Object> run = SampleRuns.run(1000, "a machine");
    Map<String, Object> result = fields(list(run.get("results")).getFirst());
    double[] sorted = IntStream.range(0, 120).mapToDouble(i -> samples[i]).sorted().toArray();
    result.put("median_us", (sorted[59] + sorted[60]) / 2);
    result.put("min_us", sorted[0]);
    result.put("p99_us", sorted[118]);
    result.put("max_us", sorted[119]);
    result.put("ceiling_us", 50);
    result.put("iterations_us", samples);
    run.put("results", new ArrayList<>(List.of(result)));
    return RunArtifact.of("run", tree(run));
  }
}
