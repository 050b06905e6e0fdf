package org.ep4j.conformance;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.round.VerifiedRound;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.error.Ep4jException;
import org.ep4j.group.Group;
import org.ep4j.group.PeerLostException;

/**
 * Verified operations of all ranks, then low-latency traffic in which a rank is killed, then
 * verified low-latency operations of the others while it is masked, until a new process has
 * replaced it; the same for further ranks. Arguments: engine, and the ranks to kill in order,
 * separated by commas; then {@link NodeArguments}.
 *
 * <p>With the variable {@link #CRASH_POINT} a replacing process kills itself that many milliseconds
 * after it has joined the group, or when it has its buffer.
 */
final class ReadmitJob implements RankJob {
  static final String READY = "readmit job: kill me in iteration ";
  static final String MASKED = "readmit job: continuing without the victim of iteration ";
  static final String LOST_AGAIN = "readmit job: lost again in iteration ";
  static final String DONE = "readmit job: done";
  static final String CRASH_POINT = "EP4J_TEST_DOOM";

  /** The first iteration of a replacing process. */
  static final String ATTEMPT = "EP4J_TEST_TURN";

  private static final Duration LONG = Duration.ofSeconds(60);
  private static final int ROUNDS = 3;
  private static final int PAIRS_BETWEEN_BARRIERS = 20;

  @Override
  public void run(Group group, List<String> arguments) throws Exception {
    NodeArguments nodes = NodeArguments.of(arguments);
    int[] victims =
        Arrays.stream(arguments.get(1).split(",")).mapToInt(Integer::parseInt).toArray();
    BufferConfig config =
        VerifiedRound.masking(nodes.apply(BufferConfig.builder()))
            .timeout(LONG)
            .engine(arguments.getFirst())
            .build();
    boolean again = group.incarnation(group.rank()) > 0;
    if (again) {
      beginToDie();
    }
    try (ExpertBuffer buffer =
        again ? ExpertBuffer.rejoin(group, config) : ExpertBuffer.open(group, config)) {
      if (again) {
        crashIfChosen();
        group.barrier(LONG);
      }
      for (int attempt = again ? firstAttempt() : 0; attempt < victims.length; attempt++) {
        attempt(group, buffer, attempt, victims[attempt]);
      }
      verified(buffer, victims.length);
      System.out.println(DONE);
    }
  }

  private static int firstAttempt() {
    return Integer.parseInt(System.getenv(ATTEMPT));
  }

  private static void verified(ExpertBuffer buffer, int attempt) {
    for (int round = 0; round < ROUNDS; round++) {
      VerifiedRound.operate(buffer, 1000L * attempt + round, -1);
    }
  }

  private static void attempt(Group group, ExpertBuffer buffer, int attempt, int victim)
      throws InterruptedException {
    verified(buffer, attempt);
    System.out.println(READY + attempt);
    trafficUntilKill(group, buffer, victim);
    if (buffer.rank() == victim) {
      throw new IllegalStateException("the victim is alive, and another rank is lost");
    }
    masked(group, buffer, attempt, victim);
    System.out.println(MASKED + attempt);
    while (!takenIn(group, buffer, attempt, victim)) {
      masked(group, buffer, attempt, victim);
    }
    if (buffer.isMasked(victim)) {
      throw new IllegalStateException("rank " + victim + " has rejoined and is still masked");
    }
  }

  /** Ends on all ranks alike: the group decides. */
  private static void trafficUntilKill(Group group, ExpertBuffer buffer, int victim) {
    long seed = 0;
    try {
      while (true) {
        for (int i = 0; i < PAIRS_BETWEEN_BARRIERS; i++) {
          VerifiedRound.unchecked(buffer, seed++);
        }
        group.barrier(LONG);
      }
    } catch (PeerLostException e) {
      if (e.rank() != victim) {
        throw e;
      }
    }
  }

  private static void masked(Group group, ExpertBuffer buffer, int attempt, int victim) {
    if (!buffer.isMasked(victim)) {
      buffer.updateMask(victim, true);
    }
    try (Group live = group.survivors(LONG)) {
      for (int round = 0; round < ROUNDS; round++) {
        VerifiedRound.lowLatency(buffer, 500 + 1000L * attempt + round, victim);
      }
      live.barrier(LONG);
    }
  }

  /** Whether a live process has rejoined; the same on all ranks. */
  private static boolean takenIn(Group group, ExpertBuffer buffer, int attempt, int victim)
      throws InterruptedException {
    int[] back = group.readmit(LONG);
    if (!Arrays.equals(back, new int[] {victim})) {
      throw new IllegalStateException("ranks " + Arrays.toString(back) + " rejoined");
    }
    try {
      buffer.readmit();
      group.barrier(LONG);
      return true;
    } catch (Ep4jException e) {
      System.out.println(LOST_AGAIN + attempt + ": " + e.getMessage());
      awaitDeath(group, victim);
      // Whether it is needed depends on the step in which the newcomer died, and ranks may differ.
      buffer.reset();
      return false;
    }
  }

  private static void awaitDeath(Group group, int rank) throws InterruptedException {
    long end = System.nanoTime() + LONG.toNanos();
    while (group.isAlive(rank)) {
      if (System.nanoTime() > end) {
        throw new IllegalStateException("rank " + rank + " was to die, but is alive");
      }
      Thread.sleep(1);
    }
  }

  private static void beginToDie() {
    String crashPoint = System.getenv(CRASH_POINT);
    if (crashPoint != null) {
      Thread.ofPlatform()
          .daemon()
          .start(
              () -> {
                try {
                  Thread.sleep(Integer.parseInt(crashPoint));
                } catch (InterruptedException e) {
                  // Dies anyway.
                }
                Runtime.getRuntime().halt(9);
              });
    }
  }

  private static void crashIfChosen() {
    if (System.getenv(CRASH_POINT) != null) {
      Runtime.getRuntime().halt(9);
    }
  }
}
