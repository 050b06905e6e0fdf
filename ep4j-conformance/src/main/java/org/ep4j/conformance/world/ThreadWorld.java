package org.ep4j.conformance.world;

import java.time.Duration;
import java.util.List;
import org.ep4j.group.ThreadRanks;

/**
 * A rank per thread.
 *
 * @param limit time limit for all ranks together
 */
public record ThreadWorld(Duration limit) implements World {
  /** Threads with two minutes. */
  public ThreadWorld() {
    this(Duration.ofMinutes(2));
  }

  @Override
  public String name() {
    return "threads";
  }

  @Override
  public boolean costly() {
    return false;
  }

  @Override
  public void run(int ranks, Class<? extends RankJob> job, List<String> arguments) {
    ThreadRanks.run(ranks, limit, group -> World.create(job).run(group, arguments));
  }
}
