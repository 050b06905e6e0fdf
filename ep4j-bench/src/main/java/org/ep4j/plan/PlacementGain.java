package org.ep4j.plan;

import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;

/**
 * What a placement changes against experts in blocks.
 *
 * @param blocks the plan with experts in blocks, each once
 * @param placed the plan with the placement
 * @param blocksBalance mean load of the ranks over that of the busiest, with blocks
 * @param placedBalance the same with the placement
 */
public record PlacementGain(Plan blocks, Plan placed, double blocksBalance, double placedBalance) {
  /**
   * Predicts a request with its placement, and with blocks.
   *
   * @throws InvalidArgumentException as {@link Plan#of}
   */
  public static PlacementGain of(MachineProfile profile, PlanRequest request) {
    long[] load = ExpertLoads.of(request);
    ReplicatedPlacement blocks =
        ReplicatedPlacement.of(ExpertPlacement.blocks(request.experts(), request.ranks()));
    ReplicatedPlacement placed = request.placed();
    return new PlacementGain(
        Plan.of(profile, request.withPlacement(blocks)),
        Plan.of(profile, request),
        blocks.balancedness(load),
        placed.balancedness(load));
  }
}
