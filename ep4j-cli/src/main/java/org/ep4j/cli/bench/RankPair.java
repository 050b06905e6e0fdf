package org.ep4j.cli.bench;

import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.launch.World;
import org.ep4j.cli.launch.WorldOptions;
import picocli.CommandLine.Model.CommandSpec;

/** Measurements between two ranks, whoever starts them. */
final class RankPair {
  static final int RANKS = 2;

  private RankPair() {}

  /** Runs the body on two ranks; refused where a launcher has made more or fewer. */
  static int run(WorldOptions world, CommandSpec spec, World.RankBody body) throws Exception {
    return world.run(
        spec,
        RANKS,
        (group, progress) -> {
          CommandSpecs.check(
              spec,
              group.size() == RANKS,
              "bench %s measures between 2 ranks, but there are %d"
                  .formatted(spec.name(), group.size()));
          return body.run(group, progress);
        });
  }
}
