package org.ep4j.cli.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToIntFunction;
import org.ep4j.cli.report.Charts;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanVariants;
import org.ep4j.plan.Prediction;
import org.ep4j.plan.Term;

/** The charts of a plan: what each shows, as data for the script of the page. */
record PlanCharts(Charts charts, PlanReport report) {
  /**
   * A line of a chart of several plans.
   *
   * @param operation the operation of each plan that it shows
   * @param knee the number from which on more of them help little; 0: none
   */
  record Line(PlanOperation operation, int knee) {}

  /** The terms of both operations: each overlapping one from zero, each other one at its place. */
  String terms() {
    return charts.add(
        "terms",
        "The parts of the time of each operation",
        List.of(
            operation(report.dispatchLabel(), report.plan().dispatch()),
            operation(PlanReport.COMBINE, report.plan().combine())),
        Map.of());
  }

  private Map<String, Object> operation(String label, Prediction prediction) {
    List<Map<String, Object>> parts = new ArrayList<>();
    prediction
        .terms()
        .forEach(
            (term, micros) -> {
              if (term.overlaps()) {
                parts.add(part(term, 0, micros, prediction));
              }
            });
    double end = prediction.overlappedMicros();
    if (report.request().kind() == PlanKind.HT) {
      Map<String, Object> together = Charts.row("these four");
      together.put("from", 0.0);
      together.put("micros", end);
      together.put("role", "together");
      parts.add(together);
    }
    for (Map.Entry<Term, Double> term : prediction.terms().entrySet()) {
      if (!term.getKey().overlaps()) {
        parts.add(part(term.getKey(), end, term.getValue(), prediction));
        end += term.getValue();
      }
    }
    Map<String, Object> row = Charts.row(label);
    row.put("micros", prediction.micros());
    row.put("parts", parts);
    return row;
  }

  private static Map<String, Object> part(
      Term term, double from, double micros, Prediction prediction) {
    Map<String, Object> part = Charts.row(term.label());
    part.put("from", from);
    part.put("micros", micros);
    part.put("role", term.overlaps() ? "overlaps" : "adds");
    part.put("limit", term == prediction.limit());
    return part;
  }

  /**
   * Time against a number, with the limit of each point.
   *
   * @param axis name of the number
   * @param number the number of a plan
   * @param logarithmic whether the number doubles from point to point
   */
  String limits(
      String axis,
      List<PlanVariants.Variant> variants,
      ToIntFunction<PlanVariants.Variant> number,
      boolean logarithmic,
      List<Line> lines) {
    List<Map<String, Object>> rows = new ArrayList<>();
    for (Line line : lines) {
      List<Map<String, Object>> points = new ArrayList<>();
      for (PlanVariants.Variant variant : variants) {
        Prediction prediction = line.operation().of(variant.plan());
        Map<String, Object> point = new LinkedHashMap<>();
        point.put("x", number.applyAsInt(variant));
        point.put("micros", prediction.micros());
        point.put("limit", prediction.limit().label());
        points.add(point);
      }
      Map<String, Object> row = Charts.row(line.operation().label(report));
      row.put("points", points);
      if (line.knee() > 0) {
        row.put("knee", line.knee());
      }
      rows.add(row);
    }
    Map<String, Object> more = new LinkedHashMap<>();
    more.put("axis", axis);
    more.put("logarithmic", logarithmic);
    more.put(
        "planned", number.applyAsInt(new PlanVariants.Variant(report.request(), report.plan())));
    more.put("terms", Arrays.stream(Term.values()).map(Term::label).toList());
    return charts.add("limits", "Time against " + axis + ", and what limits it", rows, more);
  }
}
