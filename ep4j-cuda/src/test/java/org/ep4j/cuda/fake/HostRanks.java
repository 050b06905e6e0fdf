package org.ep4j.cuda.fake;

import java.time.Duration;
import java.util.UUID;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.engine.HostedBuffer;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.group.rendezvous.Rendezvous;

/**
 * Ranks on hosts that a test names. They are separate processes to each other, but threads of this
 * JVM.
 */
final class HostRanks {
  static final Duration LIMIT = Duration.ofSeconds(60);

  /** What a rank does; it closes its group itself or leaves that to this class. */
  interface Body {
    void run(HostRanks rank) throws Exception;
  }

  final Group group;
  private final String host;

  private HostRanks(Group group, String host) {
    this.group = group;
    this.host = host;
  }

  /**
   * Runs the ranks at once.
   *
   * @param hosts a letter for each rank
   */
  static void run(String hosts, Body body) {
    try (Rendezvous rendezvous =
        Rendezvous.open(
            GroupConfig.builder()
                .size(hosts.length())
                .rendezvous("127.0.0.1", 0)
                .secret(UUID.randomUUID().toString())
                .joinTimeout(LIMIT)
                .livenessTimeout(Duration.ofSeconds(5))
                .build())) {
      ThreadRanks.run(
          hosts.length(),
          LIMIT,
          thread -> {
            int rank = thread.rank();
            try (Group group = Group.join(rendezvous.configOf(rank))) {
              body.run(new HostRanks(group, hosts.substring(rank, rank + 1)));
            }
          });
    }
  }

  int rank() {
    return group.rank();
  }

  ExpertBuffer open(BufferConfig config) {
    return HostedBuffer.open(group, config, host);
  }
}
