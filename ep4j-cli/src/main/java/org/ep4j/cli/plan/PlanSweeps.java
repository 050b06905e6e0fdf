package org.ep4j.cli.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.function.ToIntFunction;
import org.ep4j.cli.text.Units;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.PlanVariants;
import org.ep4j.plan.PlanVariants.Variant;
import org.ep4j.plan.PlannedMemory;
import org.ep4j.plan.Prediction;
import org.ep4j.plan.ProfileConstant;
import org.ep4j.plan.RecordedRouting;
import org.ep4j.plan.Term;

/** The sections of a page about other numbers of ranks and of SMs. */
final class PlanSweeps {
  /** SMs of a chart; more where a GPU must have more to be near its best. */
  private static final List<Integer> SMS = List.of(8, 16, 24, 32, 40, 48, 56, 64);

  private final PlanReport report;
  private final PlanRequest request;
  private final PlanVariants variants;
  private final PlanCharts figures;

  PlanSweeps(PlanReport report, PlanVariants variants, PlanCharts figures) {
    this.report = report;
    this.variants = variants;
    this.figures = figures;
    request = report.request();
  }

  /**
   * Writes time against ranks.
   *
   * @param nodeSize ranks of a node, at most
   */
  void overRanks(PageText page, int nodeSize) {
    page.heading("Time against ranks");
    if (request.placement() != null) {
      page.text(
          "No chart: the placement of the experts is one for %s and fits no other number."
              .formatted(PageText.count(request.ranks(), "rank")));
      return;
    }
    List<Variant> worlds = variants.overRanks(nodeSize);
    if (worlds.size() == 1) {
      page.text("No chart: the experts divide evenly over no other number of ranks.");
      return;
    }
    page.text(
        "Each rank keeps its %s, and the model its %s; a node has up to %s. %s"
            .formatted(
                PageText.count(request.tokens(), "token"),
                PageText.count(request.experts(), "expert"),
                PageText.count(nodeSize, "rank"),
                changesOfLimit(worlds, variant -> variant.request().ranks(), "ranks")));
    page.add(
        figures.limits(
            "ranks",
            worlds,
            variant -> variant.request().ranks(),
            true,
            List.of(
                new PlanCharts.Line(PlanOperation.DISPATCH, 0),
                new PlanCharts.Line(PlanOperation.COMBINE, 0))));
    List<List<String>> rows = new ArrayList<>();
    for (Variant world : worlds) {
      rows.add(
          row(
              world.request().ranks(),
              world,
              List.of(String.valueOf(world.request().ranksPerNode())),
              List.of(Units.bytes(PlannedMemory.of(world.request()).symmetricBytes()))));
    }
    page.table(headings("ranks", List.of("on a node"), List.of("memory that peers reach")), rows);
    StringBuilder notes = new StringBuilder();
    if (request.kind() == PlanKind.HT
        && worlds.stream().map(world -> world.request().nodes() > 1).distinct().count() > 1) {
      notes.append(
          "GB/s of one node count rows once a receiving rank, those of several nodes once a"
              + " receiving node: compare them within each only. ");
    }
    if (request.routing() instanceof RecordedRouting) {
      notes.append("Over a number of ranks that was not recorded, the tokens are divided evenly. ");
    }
    notes.append("Numbers of ranks over which the experts do not divide evenly are left out.");
    page.note(notes.toString());
  }

  /** Which term limits each operation with which numbers. */
  private String changesOfLimit(List<Variant> points, ToIntFunction<Variant> number, String unit) {
    StringBuilder text = new StringBuilder();
    for (PlanOperation operation : PlanOperation.values()) {
      List<String> stretches = new ArrayList<>();
      int from = 0;
      for (int i = 1; i <= points.size(); i++) {
        Term limit = operation.of(points.get(from).plan()).limit();
        if (i == points.size() || operation.of(points.get(i).plan()).limit() != limit) {
          int first = number.applyAsInt(points.get(from));
          int last = number.applyAsInt(points.get(i - 1));
          stretches.add(
              limit.label()
                  + (first == last ? " with " + first : " with " + first + " to " + last));
          from = i;
        }
      }
      text.append("What limits the %s: ".formatted(operation.word()))
          .append(String.join(", ", stretches))
          .append(' ')
          .append(unit)
          .append(". ");
    }
    return text.toString().strip();
  }

  private static List<String> headings(String first, List<String> before, List<String> after) {
    List<String> headings = new ArrayList<>(List.of(first));
    headings.addAll(before);
    for (PlanOperation operation : PlanOperation.values()) {
      headings.addAll(List.of(operation.word(), "GB/s", "limit"));
    }
    headings.addAll(after);
    return headings;
  }

  private List<String> row(int number, Variant variant, List<String> before, List<String> after) {
    boolean planned = variant.request().equals(request);
    List<String> cells = new ArrayList<>(List.of(number + (planned ? " (planned)" : "")));
    cells.addAll(before);
    for (PlanOperation operation : PlanOperation.values()) {
      Prediction found = operation.of(variant.plan());
      cells.addAll(
          List.of(
              PageText.micros(found.micros()),
              Units.significant(found.gbps()),
              found.limit().label()));
    }
    cells.addAll(after);
    return cells;
  }

  /** Writes time against SMs. */
  void overSms(PageText page) {
    page.heading("Time against SMs");
    int all = report.profile().count(ProfileConstant.SMS);
    int dispatch = fewest(PlanOperation.DISPATCH, all);
    int combine = fewest(PlanOperation.COMBINE, all);
    TreeSet<Integer> numbers = new TreeSet<>(List.of(request.sms(), dispatch, combine));
    SMS.stream().filter(sms -> sms <= all).forEach(numbers::add);
    List<Variant> points = numbers.stream().map(variants::withSms).toList();
    page.text(
        ("With all %d SMs of a GPU the dispatch takes"
                + " %s and the combine %s; %d suffice for at most 5 %% more in the dispatch, %d in"
                + " the combine: there more SMs stop helping. %s")
            .formatted(
                all,
                PageText.micros(PlanOperation.DISPATCH.of(variants.withSms(all).plan()).micros()),
                PageText.micros(PlanOperation.COMBINE.of(variants.withSms(all).plan()).micros()),
                dispatch,
                combine,
                changesOfLimit(points, variant -> variant.request().sms(), "SMs")));
    page.add(
        figures.limits(
            "SMs",
            points,
            variant -> variant.request().sms(),
            false,
            List.of(
                new PlanCharts.Line(PlanOperation.DISPATCH, dispatch),
                new PlanCharts.Line(PlanOperation.COMBINE, combine))));
    List<List<String>> rows = new ArrayList<>();
    for (Variant point : points) {
      rows.add(row(point.request().sms(), point, List.of(), List.of()));
    }
    page.table(headings("SMs", List.of(), List.of()), rows);
  }

  /** The fewest SMs with which the operation is near what all of them reach. */
  private int fewest(PlanOperation operation, int all) {
    double best = operation.of(variants.withSms(all).plan()).micros();
    int sms = 1;
    while (operation.of(variants.withSms(sms).plan()).micros() > (1 + PlanChanges.HELPS) * best) {
      sms++;
    }
    return sms;
  }
}
