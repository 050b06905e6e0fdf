package org.ep4j.cli.plan;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.Plan;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.Prediction;
import org.ep4j.plan.simulation.Perturbations;
import org.ep4j.plan.simulation.SimulatedOperation;
import org.ep4j.plan.simulation.SimulatedPlan;
import org.jspecify.annotations.Nullable;

/**
 * A simulation as table and as JSON.
 *
 * @param simulated with what is slow
 * @param allAlike without it; null if nothing is slow
 */
record SimulatedReport(SimulatedPlan simulated, @Nullable SimulatedPlan allAlike) {
  static SimulatedReport of(
      MachineProfile profile, PlanRequest request, Perturbations perturbations) {
    return new SimulatedReport(
        SimulatedPlan.of(profile, request, perturbations),
        perturbations.isEmpty() ? null : SimulatedPlan.of(profile, request, Perturbations.NONE));
  }

  /** The table, and what the simulation took. */
  String text(Style style, Plan plan) {
    return table(plan).render(style) + "\n" + cost() + "\n";
  }

  /** Simulated times beside those of the closed form. */
  Table table(Plan plan) {
    Table table =
        allAlike == null
            ? new Table("simulated", "time", "closed form", "busiest", "busy")
            : new Table("simulated", "time", "closed form", "busiest", "busy", "all alike", "cost");
    row(
        table,
        "dispatch",
        plan.dispatch(),
        simulated.dispatch(),
        allAlike == null ? null : allAlike.dispatch());
    row(
        table,
        "combine",
        plan.combine(),
        simulated.combine(),
        allAlike == null ? null : allAlike.combine());
    return table;
  }

  /** What the simulation took. */
  String cost() {
    return "Simulated %s million events in %s s, in chunks of %s rows at most."
        .formatted(
            Units.significant(events() / 1e6),
            Units.significant(seconds()),
            Units.fixed(simulated.dispatch().chunkRows(), 0));
  }

  private static void row(
      Table table,
      String name,
      Prediction closed,
      SimulatedOperation found,
      @Nullable SimulatedOperation alike) {
    List<String> cells =
        new ArrayList<>(
            List.of(
                name,
                Units.micros(found.micros()),
                Units.micros(closed.micros()),
                found.busiest().word() + " of rank " + found.busiestRank(),
                Units.fixed(100 * found.busiestShare(), 0) + " %"));
    if (alike != null) {
      cells.add(Units.micros(alike.micros()));
      cells.add(Units.micros(found.micros() - alike.micros()));
    }
    table.row(cells.toArray(String[]::new));
  }

  /** The field {@code simulated} of the JSON. */
  Map<String, Object> tree() {
    Map<String, Object> tree = new LinkedHashMap<>();
    operation(tree, "dispatch", simulated.dispatch());
    operation(tree, "combine", simulated.combine());
    if (allAlike != null) {
      tree.put("dispatch_alike_us", allAlike.dispatch().micros());
      tree.put("combine_alike_us", allAlike.combine().micros());
    }
    tree.put("chunk_rows", simulated.dispatch().chunkRows());
    tree.put("events", events());
    tree.put("seconds", seconds());
    return tree;
  }

  private static void operation(
      Map<String, Object> tree, String name, SimulatedOperation operation) {
    tree.put(name + "_us", operation.micros());
    tree.put(name + "_busiest", operation.busiest().key());
    tree.put(name + "_busiest_rank", operation.busiestRank());
    tree.put(name + "_busiest_share", operation.busiestShare());
  }

  private List<SimulatedPlan> plans() {
    return allAlike == null ? List.of(simulated) : List.of(simulated, allAlike);
  }

  private long events() {
    return plans().stream()
        .mapToLong(plan -> plan.dispatch().events() + plan.combine().events())
        .sum();
  }

  private double seconds() {
    return plans().stream().mapToDouble(SimulatedPlan::seconds).sum();
  }
}
