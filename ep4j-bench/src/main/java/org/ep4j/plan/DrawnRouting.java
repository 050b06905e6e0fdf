package org.ep4j.plan;

import org.ep4j.verify.RoutingKind;

/**
 * Experts that follow a distribution: the tokens of {@code ep4j bench}.
 *
 * @param kind popularity of experts
 * @param groups as {@link PlanRouting#groups()}
 */
public record DrawnRouting(RoutingKind kind, int groups) implements PlanRouting {
  /** Every expert is equally likely. */
  public static final DrawnRouting UNIFORM = new DrawnRouting(RoutingKind.UNIFORM, 0);
}
