package org.ep4j.plan;

/** The kind of operation that is planned. */
public enum PlanKind {
  /** High throughput: a row once a receiving rank, and once a node between nodes. */
  HT,
  /** Low latency: a row once an expert. */
  LL
}
