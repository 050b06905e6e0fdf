package org.ep4j.conformance;

import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.round.Overflow;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.group.Group;

/** Dispatches without room for their rows. Arguments: engine, seed; then {@link NodeArguments}. */
public final class OverflowJob implements RankJob {
  /** Used by reflection. */
  public OverflowJob() {}

  @Override
  public void run(Group group, List<String> arguments) {
    BufferConfig.Builder config =
        Overflow.shape(BufferConfig.builder(), group.size()).engine(arguments.get(0));
    BufferConfig placed = NodeArguments.of(arguments).apply(config).build();
    try (ExpertBuffer buffer = ExpertBuffer.open(group, placed)) {
      Overflow.run(buffer, Long.parseLong(arguments.get(1)));
    }
  }
}
