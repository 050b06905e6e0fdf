package org.ep4j.conformance.wire;

/** Thrown by a {@link FaultyWire} at the step at which its plan kills this rank. */
public final class RankKilled extends RuntimeException {
  private static final long serialVersionUID = 1L;

  RankKilled(FaultPlan plan) {
    super("killed at step " + plan.killAt() + " of seed " + plan.seed());
  }
}
