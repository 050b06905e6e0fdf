package org.ep4j.cli.plan;

import java.util.Locale;
import org.ep4j.plan.Plan;
import org.ep4j.plan.Prediction;

/** The two operations of a plan. */
enum PlanOperation {
  DISPATCH,
  COMBINE;

  /** What a plan predicts for the operation. */
  Prediction of(Plan plan) {
    return this == DISPATCH ? plan.dispatch() : plan.combine();
  }

  /** Its name. */
  String word() {
    return name().toLowerCase(Locale.ROOT);
  }

  /** Its name with the format of its rows. */
  String label(PlanReport report) {
    return this == DISPATCH ? report.dispatchLabel() : PlanReport.COMBINE;
  }
}
