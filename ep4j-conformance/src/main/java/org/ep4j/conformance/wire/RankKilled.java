package org.ep4j.conformance.wire;

/** Thrown out of a {@link FaultyWire} where its plan says that this rank dies now. */
public final class RankKilled extends RuntimeException {
  private static final long serialVersionUID = 1L;

  RankKilled(FaultPlan plan) {
    super("killed at step " + plan.killAt() + " of seed " + plan.seed());
  }
}
