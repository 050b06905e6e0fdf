package org.ep4j.verify;

/** How tokens choose their experts; see {@code benchmarks/ROUTING.md}. */
public enum RoutingKind {
  /** Every expert is equally likely. */
  UNIFORM,
  /** The popularity of experts falls as 1 / place; the places are shuffled. */
  ZIPF,
  /** Three draws of four go to the first eighth of the experts: the worst imbalance. */
  HOT
}
