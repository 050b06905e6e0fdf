package org.ep4j.cli.plan;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.ep4j.cli.text.Units;
import org.ep4j.plan.PlanVariants;
import org.ep4j.plan.PlanVariants.Variant;
import org.ep4j.plan.Prediction;
import org.ep4j.plan.Term;

/** What limits the operations of a plan, and what a change of the machine would make of them. */
final class PlanChanges {
  /** A change that shortens a time by a smaller part does not help. */
  static final double HELPS = 0.05;

  /** A smaller part is none. */
  private static final double NOTHING = 0.01;

  private final PlanReport report;
  private final Map<Term, Variant> faster;

  PlanChanges(PlanReport report, PlanVariants variants) {
    this.report = report;
    faster = variants.faster();
  }

  /** Time, rate, limit, and what would help. */
  String sentence(PlanOperation operation) {
    Prediction found = operation.of(report.plan());
    Term limit = found.limit();
    String alone = PageText.micros(found.terms().getOrDefault(limit, 0.0));
    StringBuilder text = new StringBuilder();
    text.append(
            "%s, %s GB/s. "
                .formatted(PageText.micros(found.micros()), Units.significant(found.gbps())))
        .append(PageText.capital(PlanWords.part(limit)))
        .append(limit == Term.SM ? " are the limit: " : " is the limit: ")
        .append(PlanWords.share(limit, alone))
        .append(". ");
    Term best =
        faster.keySet().stream()
            .filter(part -> shorter(operation, variant(part)) >= HELPS)
            .max(Comparator.comparingDouble(part -> shorter(operation, variant(part))))
            .orElse(null);
    text.append(
        best == null
            ? "No change below shortens it by 5 %. "
            : "%s would help most: %s. "
                .formatted(PageText.capital(change(best)), outcome(operation, best)));
    if (faster.containsKey(Term.SM) && best != Term.SM) {
      text.append(
          shorter(operation, variant(Term.SM)) < NOTHING
              ? "More SMs would not help: %s take %s."
                  .formatted(
                      change(Term.SM),
                      PageText.micros(operation.of(variant(Term.SM).plan()).micros()))
              : "%s: %s."
                  .formatted(PageText.capital(change(Term.SM)), outcome(operation, Term.SM)));
    }
    return text.toString().strip();
  }

  private Variant variant(Term part) {
    Variant found = faster.get(part);
    return Objects.requireNonNull(found, () -> "no variant of " + part);
  }

  /** The part by which a change shortens the operation. */
  private double shorter(PlanOperation operation, Variant changed) {
    return 1 - operation.of(changed.plan()).micros() / operation.of(report.plan()).micros();
  }

  private String outcome(PlanOperation operation, Term part) {
    Variant changed = variant(part);
    return "%s, %s less"
        .formatted(
            PageText.micros(operation.of(changed.plan()).micros()),
            PageText.percent(shorter(operation, changed)));
  }

  private String change(Term part) {
    return switch (part) {
      case NVLINK -> "NVLink of twice the rate";
      case NIC -> "a NIC of twice the rate";
      case MEMORY -> "memory of twice the rate";
      default ->
          "%d SMs in place of %d".formatted(variant(part).request().sms(), report.request().sms());
    };
  }

  /** A table of all changes. */
  void write(PageText page) {
    page.heading("What would help");
    page.text(
        "The same plan with one change each. Nothing else changes, prices of such parts included.");
    List<List<String>> rows = new ArrayList<>();
    for (Map.Entry<Term, Variant> one : faster.entrySet()) {
      List<String> cells = new ArrayList<>(List.of(change(one.getKey())));
      for (PlanOperation operation : PlanOperation.values()) {
        cells.add(PageText.micros(operation.of(one.getValue().plan()).micros()));
        cells.add(PageText.percent(shorter(operation, one.getValue())));
      }
      rows.add(cells);
    }
    page.table(List.of("change", "dispatch", "shorter by", "combine", "shorter by"), rows);
  }
}
