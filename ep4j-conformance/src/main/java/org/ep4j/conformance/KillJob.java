package org.ep4j.conformance;

import java.time.Duration;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.round.VerifiedRound;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;

/**
 * Endless operations until a rank is killed; then a reset, and verified operations of the remaining
 * ranks. Writes its events to standard output. Arguments: engine, whether it has low-latency
 * operations, and after which losses buffers continue ({@link KillKit.Survivors}); after other
 * losses the remaining ranks get an error and open another buffer, with the backend and the wire of
 * the next two arguments; then the setting {@code lostRanks}, and {@link NodeArguments}.
 */
final class KillJob implements RankJob {
  static final String JOINED = "kill job: joined";
  static final String RUNNING = "kill job: running";
  static final String LOST = "kill job: lost rank ";
  static final String RECOVERED = "kill job: recovered";
  static final String GOING_ON = "kill job: continuing";
  static final String SURVIVED = "kill job: survived";
  static final String ABORTED = "kill job: aborted in open: ";

  private static final int ROUNDS_A_REPORT = 16;

  private static final Duration TIMEOUT = Duration.ofMinutes(2);

  /** Enough for a rank that was only stopped to continue in between. */
  private static final int ROUNDS_WITHOUT = 50;

  @Override
  public void run(Group group, List<String> arguments) {
    System.out.println(JOINED);
    NodeArguments nodes = NodeArguments.of(arguments);
    BufferConfig shape =
        VerifiedRound.shape(
                nodes.apply(BufferConfig.builder()), Boolean.parseBoolean(arguments.get(1)))
            .build();
    int lostRanks = Integer.parseInt(arguments.get(5));
    BufferConfig config =
        shape.toBuilder()
            .highThroughput(
                shape.highThroughput().orElseThrow().toBuilder().lostRanks(lostRanks).build())
            .timeout(TIMEOUT)
            .engine(arguments.getFirst())
            .build();
    ExpertBuffer opened;
    try {
      opened = ExpertBuffer.open(group, config);
    } catch (Ep4jException e) {
      System.out.println(ABORTED + e.getMessage());
      return;
    }
    int victim;
    try (ExpertBuffer buffer = opened) {
      victim = runUntilKill(buffer);
      System.out.println(LOST + victim);
      if (goesOn(KillKit.Survivors.valueOf(arguments.get(2)), victim, group.size(), nodes)) {
        buffer.reset();
        runWithout(buffer, victim);
        return;
      }
      isRefused(buffer);
    }
    BufferConfig next = config.toBuilder().backend(arguments.get(3)).wire(arguments.get(4)).build();
    try (Group live = group.survivors(TIMEOUT);
        ExpertBuffer another = ExpertBuffer.open(live, next)) {
      runWithout(another, -1);
    }
  }

  private static boolean goesOn(
      KillKit.Survivors goesOn, int victim, int ranks, NodeArguments nodes) {
    return switch (goesOn) {
      case WITHOUT_ANY_RANK -> true;
      case WITHOUT_WHOLE_NODES -> nodes.isAlone(victim, ranks);
      case WITH_ALL_RANKS -> false;
    };
  }

  private static void isRefused(ExpertBuffer buffer) {
    try {
      buffer.reset();
    } catch (UnsupportedOperationException e) {
      if (String.valueOf(e.getMessage()).startsWith(ErrorCode.RESET_UNSUPPORTED.id())) {
        return;
      }
      throw e;
    }
    throw new AssertionError("reset() has continued without a rank");
  }

  private static void runWithout(ExpertBuffer buffer, int victim) {
    System.out.println(RECOVERED);
    for (int round = 0; round < ROUNDS_WITHOUT; round++) {
      VerifiedRound.operate(buffer, 1_000_000 + round, victim);
    }
    System.out.println(SURVIVED);
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
