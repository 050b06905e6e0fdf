package org.ep4j.plan;

import org.ep4j.verify.RoutingKind;

/**
 * How tokens choose experts.
 *
 * @param kind popularity of experts
 * @param groups nodes among which the experts of a token lie; 0, or as many as there are nodes: all
 */
public record PlanRouting(RoutingKind kind, int groups) {
  /** Every expert is equally likely. */
  public static final PlanRouting UNIFORM = new PlanRouting(RoutingKind.UNIFORM, 0);
}
