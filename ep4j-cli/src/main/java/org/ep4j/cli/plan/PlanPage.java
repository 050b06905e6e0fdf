package org.ep4j.cli.plan;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.BufferSizes;
import org.ep4j.cli.report.Charts;
import org.ep4j.cli.report.Html;
import org.ep4j.cli.report.Page;
import org.ep4j.cli.text.Units;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.PlanVariants;
import org.ep4j.plan.Prediction;
import org.ep4j.plan.ProfileConstant;
import org.ep4j.plan.Term;

/** A plan as a page, for readers new to ep4j and to its planner. */
final class PlanPage {
  private final PlanReport report;
  private final PlanRequest request;
  private final PlanVariants variants;
  private final PlanChanges changes;
  private final Charts charts = new Charts();
  private final PlanCharts figures;
  private final PageText page = new PageText();

  private PlanPage(PlanReport report) {
    this.report = report;
    request = report.request();
    variants = new PlanVariants(report.profile(), request);
    changes = new PlanChanges(report, variants);
    figures = new PlanCharts(charts, report);
  }

  /**
   * The text of the page.
   *
   * @param nodeSize ranks of a node in plans of other numbers of ranks, at most
   */
  static String of(PlanReport report, int nodeSize) {
    PlanPage plan = new PlanPage(report);
    plan.write(nodeSize);
    return Page.of("ep4j plan", plan.page.toString(), plan.charts);
  }

  private void write(int nodeSize) {
    page.add("<section>\n");
    introduction();
    result();
    terms();
    changes.write(page);
    PlanSweeps sweeps = new PlanSweeps(report, variants, figures);
    sweeps.overRanks(page, nodeSize);
    if (request.kind() == PlanKind.HT) {
      sweeps.overSms(page);
    }
    memory();
    if (report.gain() != null) {
      page.heading("What the placement changes");
      page.text("Experts in blocks, each once, against the planned placement.");
      page.add(Html.table(report.gainTable(report.gain())));
    }
    if (report.simulated() != null) {
      page.heading("Simulation");
      page.text(
          "Chunks of rows moved over the SMs, links and memory of each rank, one after another."
              + " Busiest: the resource that worked for the largest part of the time. Take the time"
              + " from the closed form, and from the simulation what a perturbation costs.");
      page.add(Html.table(report.simulated().table(report.plan())));
      page.note(report.simulated().cost());
    }
    machine();
    page.heading("What the words mean");
    page.add(Html.definitions(PlanWords.glossary(request)) + "</section>\n");
  }

  private String kind() {
    return request.kind() == PlanKind.HT ? "high throughput" : "low latency";
  }

  private void introduction() {
    page.add(
        "<h2>Dispatch and combine on %s, %s, %s</h2>\n"
            .formatted(
                Html.foreign(report.profile().name()),
                PageText.count(request.ranks(), "rank"),
                kind()));
    page.note(
        "Nothing was measured. All figures are computed from the constants of the machine, which"
            + " stand below. docs/plan.md of ep4j states how far such predictions were from"
            + " measurements and what they leave out.");
    page.text(
        ("%s. Each has %s, rows of %d values. A dispatch sends each token, as %s, to its %d of %s,"
                + " which lie on all ranks; a combine brings the results back, as BF16, and adds"
                + " them. %s")
            .formatted(
                world(),
                PageText.count(request.tokens(), "token"),
                request.hidden(),
                request.dtype(),
                request.topK(),
                PageText.count(request.experts(), "expert"),
                PlanWords.routing(request)));
    page.note(
        "Backend %s%s; routing: %s. The busiest rank receives %s of the mean."
            .formatted(
                request.backend(),
                request.kind() == PlanKind.HT ? ", " + PageText.count(request.sms(), "SM") : "",
                report.routing(),
                PageText.percent(report.plan().imbalance())));
  }

  private String world() {
    if (request.ranks() == 1) {
      return "One rank with a GPU";
    }
    return "%d ranks with a GPU each, ".formatted(request.ranks())
        + (request.nodes() == 1
            ? "all on one node"
            : "%d on each of %d nodes".formatted(request.ranksPerNode(), request.nodes()));
  }

  private void result() {
    page.heading("Result");
    List<List<String>> rows = new ArrayList<>();
    for (PlanOperation operation : PlanOperation.values()) {
      Prediction found = operation.of(report.plan());
      rows.add(
          List.of(
              operation.label(report),
              PageText.micros(found.micros()),
              PageText.micros(found.callMicros()),
              Units.significant(found.gbps()),
              found.limit().label()));
      page.named(operation.label(report), changes.sentence(operation));
    }
    page.table(
        List.of("", "time of kernels", "time of a call", "GB/s (" + report.unit() + ")", "limit"),
        rows);
    page.note("GB/s: " + PlanWords.rate(request));
  }

  private void terms() {
    page.heading("What the time consists of");
    page.text(
        request.kind() == PlanKind.HT
            ? "NVLink, NIC, SMs and memory work at the same time, so their times do not add up."
                + " Where two are similar they wait for each other: the four take the cube root of"
                + " the sum of their cubes, which is the longest one if it is the longest by far,"
                + " and 26 % more than it if two are equal. Fill, fixed and incast add to that."
            : "NVLink, NIC and memory are paths that work at the same time; the slowest path sets"
                + " the time. A path over a link takes its bytes, a fixed time and a part for each"
                + " peer (incast), which add up; the memory takes its bytes alone. Fixed and incast"
                + " are those of the slowest path: here %s.".formatted(slowestPaths()));
    page.add(figures.terms() + Html.table(report.table()));
  }

  private String slowestPaths() {
    String dispatch = slowestPath(report.plan().dispatch());
    String combine = slowestPath(report.plan().combine());
    return dispatch.equals(combine)
        ? dispatch
        : dispatch + " for the dispatch, " + combine + " for the combine";
  }

  private static String slowestPath(Prediction prediction) {
    return prediction.path().stream()
        .filter(Term::overlaps)
        .map(Term::label)
        .findFirst()
        .orElseThrow();
  }

  private void memory() {
    page.heading("Memory of a rank");
    page.text(
        "What a buffer of the CUDA engine would take for this shape on the rank that takes the"
            + " most. Not included: what the driver, its kernels and libraries take, and the rest"
            + " of the program.");
    List<List<String>> rows = new ArrayList<>();
    for (BufferSizes.Part part : report.memory().parts()) {
      rows.add(
          List.of(
              part.name(),
              Units.bytes(part.bytes()),
              part.onDevice() ? "GPU" : "host",
              switch (part.use()) {
                case PEERS -> "this rank and its peers";
                case PRIVATE -> "this rank";
                case FIRST_USE -> "this rank, from the first use on";
              }));
    }
    sum(rows, "all that peers reach", report.memory().symmetricBytes());
    sum(rows, "all", report.memory().totalBytes());
    page.add(Html.table(List.of("part", "size", "where", "used by"), rows, "numbers last-words"));
  }

  private static void sum(List<List<String>> rows, String name, long bytes) {
    rows.add(List.of(name, Units.bytes(bytes), "", ""));
  }

  private static String number(double value) {
    return value == Math.rint(value) ? Units.fixed(value, 0) : Double.toString(value);
  }

  private void machine() {
    page.heading("The machine");
    page.text(
        "The constants of the profile from which all figures follow. GB/s are of one GPU and one"
            + " direction.");
    List<List<String>> rows = new ArrayList<>();
    for (ProfileConstant constant : ProfileConstant.values()) {
      rows.add(
          List.of(
              constant.key(),
              constant.counts()
                  ? String.valueOf(report.profile().count(constant))
                  : Html.cell(number(report.profile().value(constant)) + " " + constant.unit()),
              PlanWords.meaning(constant),
              report.profile().source(constant)));
    }
    page.add(
        Html.table(
            List.of("constant", "value", "meaning", "source of the value"), rows, "constants"));
  }
}
