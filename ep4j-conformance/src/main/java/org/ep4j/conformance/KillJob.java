package org.ep4j.conformance;

import java.time.Duration;
import java.util.List;
import org.ep4j.BufferConfig;
import org.ep4j.Ep4jException;
import org.ep4j.ExpertBuffer;
import org.ep4j.PeerTimeoutException;
import org.ep4j.group.Group;

/**
 * Operations without end, until a rank is killed; then a reset, and verified operations among those
 * that are left. What happens is written to standard output. Arguments: engine, and whether it has
 * low-latency operations; then {@link NodeArguments}.
 */
final class KillJob implements RankJob {
  static final String JOINED = "kill job: joined";
  static final String RUNNING = "kill job: running";
  static final String LOST = "kill job: lost rank ";
  static final String BEGUN_ANEW = "kill job: begun anew";
  static final String GOING_ON = "kill job: going on";
  static final String SURVIVED = "kill job: survived";
  static final String GAVE_UP = "kill job: gave up in open: ";

  private static final int ROUNDS_A_REPORT = 16;

  /** Long enough for a rank that was only stopped to come in between. */
  private static final int ROUNDS_WITHOUT = 50;

  @Override
  public void run(Group group, List<String> arguments) {
    System.out.println(JOINED);
    NodeArguments nodes = NodeArguments.of(arguments);
    BufferConfig config =
        VerifiedRound.shape(
                nodes.apply(BufferConfig.builder()), Boolean.parseBoolean(arguments.get(1)))
            .timeout(Duration.ofMinutes(2))
            .engine(arguments.getFirst())
            .build();
    ExpertBuffer opened;
    try {
      opened = ExpertBuffer.open(group, config);
    } catch (Ep4jException e) {
      System.out.println(GAVE_UP + e.getMessage());
      return;
    }
    try (ExpertBuffer buffer = opened) {
      int victim = runUntilKill(buffer);
      System.out.println(LOST + victim);
      buffer.reset();
      System.out.println(BEGUN_ANEW);
      for (int round = 0; round < ROUNDS_WITHOUT; round++) {
        VerifiedRound.operate(buffer, 1_000_000 + round, victim);
      }
      System.out.println(SURVIVED);
    }
  }

  private static int runUntilKill(ExpertBuffer buffer) {
    try {
      for (long round = 0; ; round++) {
        VerifiedRound.operate(buffer, round, -1);
        if (round == 1) {
          System.out.println(RUNNING);
        }
        if (round % ROUNDS_A_REPORT == 0) {
          System.out.println(GOING_ON);
        }
      }
    } catch (PeerTimeoutException e) {
      if (!e.peerDead()) {
        throw e;
      }
      System.out.println(e.getMessage());
      return e.peer();
    }
  }
}
