package org.ep4j.conformance;

import java.time.Duration;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.round.VerifiedRound;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;

/**
 * A rank skips an operation; the other ranks get an error at their deadline, all ranks reset, and
 * verified rounds in the same buffer follow. Ranks skip in rotation, each operation of a round
 * once. Arguments: engine, and a seed; then {@link NodeArguments}.
 */
final class ResetJob implements RankJob {
  private static final Duration DEADLINE = Duration.ofSeconds(1);
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  @Override
  public void run(Group group, List<String> arguments) {
    long seed = Long.parseLong(arguments.get(1));
    BufferConfig config =
        VerifiedRound.shape(NodeArguments.of(arguments).apply(BufferConfig.builder()), true)
            .engine(arguments.getFirst())
            .timeout(DEADLINE)
            .build();
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      VerifiedRound.operate(buffer, seed, -1);
      for (int operation = 0; operation < VerifiedRound.OPERATIONS; operation++) {
        int away = (int) Math.floorMod(seed + operation, (long) group.size());
        long round = seed + 10L * operation;
        if (group.rank() == away) {
          VerifiedRound.begin(buffer, round, operation);
        } else {
          isNotified(buffer, round, operation);
        }
        group.barrier(TIMEOUT);
        buffer.reset();
        VerifiedRound.operate(buffer, round + 1, -1);
        VerifiedRound.operate(buffer, round + 2, -1);
        // A rank that is still in an operation must not count as late.
        group.barrier(TIMEOUT);
      }
    }
  }

  private static void isNotified(ExpertBuffer buffer, long round, int operation) {
    try {
      VerifiedRound.operate(buffer, round, -1);
    } catch (PeerTimeoutException e) {
      return;
    }
    throw new AssertionError("operation " + operation + " ended without a rank");
  }
}
