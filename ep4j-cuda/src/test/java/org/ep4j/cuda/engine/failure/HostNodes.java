package org.ep4j.cuda.engine.failure;

import java.util.Arrays;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.world.ConfigAgreement;
import org.ep4j.engine.world.Nodes;
import org.ep4j.group.Group;
import org.ep4j.routing.ExpertPlacement;

/** A node of several hosts. */
final class HostNodes {
  private HostNodes() {}

  /**
   * All ranks in one node; collective.
   *
   * @param hosts a letter for each rank
   */
  static Nodes one(Group group, String hosts) {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(128)
            .topK(1)
            .experts(group.size())
            .placement(ExpertPlacement.blocks(group.size(), group.size()))
            .lowLatency(1)
            .build();
    String host = hosts.substring(group.rank(), group.rank() + 1);
    return ConfigAgreement.require(
        group,
        config,
        host,
        all -> {
          String[] domains = new String[all.length];
          Arrays.fill(domains, "domain");
          return domains;
        });
  }
}
