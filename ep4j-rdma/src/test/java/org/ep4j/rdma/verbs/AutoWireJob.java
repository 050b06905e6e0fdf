package org.ep4j.rdma.verbs;

import java.time.Duration;
import java.util.List;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.Wires;

/** Opens the wire {@code auto} and prints the kind that it got. */
public final class AutoWireJob implements RankJob {
  static final Duration TIMEOUT = Duration.ofMinutes(2);

  /** Made by the process of a rank. */
  public AutoWireJob() {}

  @Override
  public void run(Group group, List<String> arguments) {
    try (Wire wire = Wires.open(group, WireConfig.builder().timeout(TIMEOUT).build())) {
      System.out.println("the wire is " + wire.name());
      group.barrier(TIMEOUT);
    }
  }
}
