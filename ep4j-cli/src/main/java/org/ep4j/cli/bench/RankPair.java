package org.ep4j.cli.bench;

import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.launch.World;
import org.ep4j.cli.launch.WorldOptions;
import org.ep4j.error.ErrorCode;
import picocli.CommandLine.Model.CommandSpec;

/** Measurements between two ranks. */
final class RankPair {
  static final int RANKS = 2;

  private RankPair() {}

  /** Runs the body on two ranks; refuses another number of ranks from a launcher. */
  static int run(WorldOptions world, CommandSpec spec, World.RankBody body) throws Exception {
    return world.run(
        spec,
        RANKS,
        (group, progress) -> {
          CommandSpecs.check(
              spec,
              group.size() == RANKS,
              ErrorCode.WRONG_NUMBER_OF_RANKS,
              "bench %s measures between 2 ranks, but the world has %d: start 2 ranks"
                  .formatted(spec.name(), group.size()));
          return body.run(group, progress);
        });
  }
}
