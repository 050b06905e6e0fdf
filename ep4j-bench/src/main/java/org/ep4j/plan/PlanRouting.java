package org.ep4j.plan;

/** How tokens choose experts. */
public sealed interface PlanRouting permits DrawnRouting, RecordedRouting {
  /**
   * Groups of experts that a token chooses, each the experts of a node; 0, or as many as there are
   * nodes: all.
   */
  int groups();
}
