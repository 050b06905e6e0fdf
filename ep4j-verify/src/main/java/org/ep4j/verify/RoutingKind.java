package org.ep4j.verify;

/** Distributions of the experts that tokens choose; see {@code benchmarks/ROUTING.md}. */
public enum RoutingKind {
  /** Every expert is equally likely. */
  UNIFORM,
  /** The popularity of experts falls as 1 / place; places are shuffled. */
  ZIPF,
  /** Three draws of four go to the first eighth of the experts: the worst imbalance. */
  HOT
}
