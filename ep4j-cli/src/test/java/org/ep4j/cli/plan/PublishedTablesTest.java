package org.ep4j.cli.plan;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.ep4j.plan.DrawnRouting;
import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.Plan;
import org.ep4j.plan.PlanDType;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.Prediction;
import org.ep4j.plan.simulation.Perturbations;
import org.ep4j.plan.simulation.SimulatedPlan;
import org.ep4j.verify.RoutingKind;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/**
 * Plans against published figures of other systems (published.csv, hidden 7168, top-8). A row
 * either calibrates a constant of its profile, or is predicted; both kinds are printed and both
 * must stay below the limits, and the predicted ones of a table on their own, too. The limits are
 * what the planner reached, rounded up.
 */
class PublishedTablesTest {
  /** Greatest median and greatest single error of a table, per cent. */
  private record Limit(int median, int worst) {}

  /** The goal is 15 and 25. V1 on B200 misses it: docs/plan.md has the reason. */
  private static final Map<String, Limit> LIMITS =
      Map.of(
          "V1 H800", new Limit(7, 8),
          "V1 H800 low latency", new Limit(4, 9),
          "IBRC H100 RoCE", new Limit(4, 6),
          "backends H100", new Limit(3, 10),
          "backends H100 low latency", new Limit(2, 11),
          "Hybrid-EP H100", new Limit(8, 17),
          "Hybrid-EP B200", new Limit(13, 18),
          "Hybrid-EP GB200", new Limit(6, 8),
          "V2", new Limit(10, 19),
          "NCCL EP H100 low latency", new Limit(6, 11));

  /** The same of the simulation. */
  private static final Map<String, Limit> SIMULATED =
      Map.ofEntries(
          Map.entry("V1 H800", new Limit(3, 12)),
          Map.entry("V1 H800 low latency", new Limit(2, 8)),
          Map.entry("IBRC H100 RoCE", new Limit(8, 22)),
          Map.entry("backends H100", new Limit(9, 36)),
          Map.entry("backends H100 low latency", new Limit(2, 11)),
          Map.entry("Hybrid-EP H100", new Limit(15, 42)),
          Map.entry("Hybrid-EP B200", new Limit(1, 6)),
          Map.entry("Hybrid-EP GB200", new Limit(3, 5)),
          Map.entry("V2", new Limit(6, 15)),
          Map.entry("NCCL EP H100 low latency", new Limit(6, 9)),
          Map.entry("V1 B200", new Limit(65, 143)));

  private static final Limit OUTSIDE = new Limit(51, 115);
  private static final String MISSED = "V1 B200";

  /**
   * @param time whether the figure is a time, not a rate
   */
  private record Row(
      String table,
      boolean predicted,
      String name,
      MachineProfile machine,
      PlanRequest request,
      boolean dispatch,
      boolean time,
      double published,
      Prediction prediction) {
    double plan() {
      return time ? prediction.micros() : prediction.gbps();
    }

    double error() {
      return 100 * (plan() / published - 1);
    }

    /** Error of the same figure, if the operation takes {@code micros}. */
    double error(double micros) {
      double figure = time ? micros : prediction.gbps() * prediction.micros() / micros;
      return 100 * (figure / published - 1);
    }
  }

  @Test
  void plansAreAsCloseAsTheDocumentsState() throws IOException {
    Map<String, List<Row>> tables = new LinkedHashMap<>();
    for (Row row : rows()) {
      tables.computeIfAbsent(row.table, _ -> new ArrayList<>()).add(row);
    }
    assertThat(tables).hasSize(LIMITS.size() + 1).containsKeys(MISSED);
    List<String> exceeded = new ArrayList<>();
    tables.forEach(
        (table, rows) -> {
          System.out.println(table);
          rows.forEach(PublishedTablesTest::print);
          List<Row> predicted = rows.stream().filter(Row::predicted).toList();
          Limit limit = table.equals(MISSED) ? OUTSIDE : Objects.requireNonNull(LIMITS.get(table));
          for (List<Row> part : List.of(rows, predicted)) {
            double median = median(part);
            double worst = part.stream().mapToDouble(row -> Math.abs(row.error())).max().orElse(0);
            System.out.printf(
                "  %d %s rows: median %.1f %%, worst %.1f %%%n",
                part.size(), part == predicted ? "predicted" : "of all", median, worst);
            if (median > limit.median || worst > limit.worst) {
              exceeded.add("%s: median %.1f, worst %.1f".formatted(table, median, worst));
            }
          }
        });
    assertThat(exceeded).as("tables with errors above their limits").isEmpty();
  }

  /** The simulation has no constants of its own: nothing of it is fitted to these rows. */
  @Test
  void simulationsAreAsCloseAsTheDocumentsState() throws IOException {
    Assumptions.assumeTrue(Boolean.getBoolean("ep4j.full"), "simulates 95 plans");
    Map<String, SimulatedPlan> simulated = new HashMap<>();
    Map<String, List<Double>> errors = new LinkedHashMap<>();
    for (Row row : rows()) {
      SimulatedPlan plan =
          simulated.computeIfAbsent(
              row.machine.name() + row.request,
              _ -> SimulatedPlan.of(row.machine, row.request, Perturbations.NONE));
      double micros = row.dispatch ? plan.dispatch().micros() : plan.combine().micros();
      System.out.printf(
          "  %-12s %-48s plan %+6.1f %%  simulated %+6.1f %%%n",
          row.table, row.name, row.error(), row.error(micros));
      errors.computeIfAbsent(row.table, _ -> new ArrayList<>()).add(Math.abs(row.error(micros)));
    }
    List<String> exceeded = new ArrayList<>();
    errors.forEach(
        (table, found) -> {
          double[] sorted = found.stream().mapToDouble(Double::doubleValue).sorted().toArray();
          int n = sorted.length;
          double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
          System.out.printf("%s: median %.1f %%, worst %.1f %%%n", table, median, sorted[n - 1]);
          Limit limit = Objects.requireNonNull(SIMULATED.get(table));
          if (median > limit.median || sorted[n - 1] > limit.worst) {
            exceeded.add("%s: median %.1f, worst %.1f".formatted(table, median, sorted[n - 1]));
          }
        });
    assertThat(exceeded).as("tables with errors above their limits").isEmpty();
  }

  @Test
  void oneProfileServesRowsThatCalibrateAndRowsThatArePredicted() throws IOException {
    List<Row> rows = rows();

    assertThat(rows.stream().filter(Row::predicted).count()).isGreaterThan(rows.size() / 2);
    assertThat(rows.stream().map(row -> row.table + ": " + row.name)).doesNotHaveDuplicates();
  }

  private static void print(Row row) {
    System.out.printf(
        "  %-48s %s  published %7.1f  plan %7.1f  %+6.1f %%%n",
        row.name,
        row.predicted ? "predicted " : "calibrates",
        row.published,
        row.plan(),
        row.error());
  }

  private static double median(List<Row> rows) {
    double[] errors = rows.stream().mapToDouble(row -> Math.abs(row.error())).sorted().toArray();
    int n = errors.length;
    return n == 0 ? 0 : (errors[(n - 1) / 2] + errors[n / 2]) / 2;
  }

  private static List<Row> rows() throws IOException {
    try (InputStream in = PublishedTablesTest.class.getResourceAsStream("published.csv")) {
      String text = new String(Objects.requireNonNull(in).readAllBytes(), StandardCharsets.UTF_8);
      return text.lines().skip(1).map(PublishedTablesTest::row).toList();
    }
  }

  private static Row row(String line) {
    String[] cells = line.split(",", -1);
    boolean lowLatency = cells[2].equals("ll");
    PlanRequest request =
        new PlanRequest(
            lowLatency ? PlanKind.LL : PlanKind.HT,
            Integer.parseInt(cells[3]),
            Integer.parseInt(cells[4]),
            Integer.parseInt(cells[5]),
            7168,
            8,
            Integer.parseInt(cells[6]),
            cells[8].equals("fp8") ? PlanDType.FP8 : PlanDType.BF16,
            new DrawnRouting(RoutingKind.UNIFORM, Integer.parseInt(cells[7])),
            Integer.parseInt(cells[9]),
            cells[10],
            null);
    MachineProfile machine = ProfileFile.read(cells[1]);
    Plan plan = Plan.of(machine, request);
    boolean dispatch = cells[11].equals("dispatch");
    String name =
        "%s %s ranks, %s a node, %s %s SMs %s %s"
            .formatted(cells[1], cells[3], cells[4], cells[8], cells[9], cells[10], cells[11]);
    return new Row(
        cells[0],
        cells[14].equals("predicted"),
        name,
        machine,
        request,
        dispatch,
        cells[12].equals("us"),
        Double.parseDouble(cells[13]),
        dispatch ? plan.dispatch() : plan.combine());
  }
}
