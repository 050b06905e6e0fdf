package org.ep4j.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.ep4j.config.WireName;
import org.ep4j.conformance.world.Available;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankMain;
import org.ep4j.conformance.world.RankProcesses;
import org.ep4j.conformance.world.TestScale;
import org.junit.jupiter.api.Test;

/**
 * Ranks are killed (signal 9) in low-latency traffic, one after the other, and a new process
 * replaces each of them: the other ranks continue meanwhile, keep their buffers, and all results
 * are correct afterwards. Subclasses name the engine.
 *
 * <p>System properties: {@code ep4j.seed} repeats a run, {@code ep4j.kills} is the number of kills.
 */
public abstract class ReadmitKit {
  private static final int RANKS = 3;
  private static final Duration LIMIT = Duration.ofMinutes(2);

  /** Maximum time of a process from its arrival in the group to its buffer. */
  private static final int CRASH_MILLIS = 400;

  private final long seed = TestScale.seed();

  /** For subclasses. */
  protected ReadmitKit() {}

  /** The engine, as in {@link org.ep4j.config.BufferConfig#engine()}. */
  protected abstract String engine();

  /** Ranks per node, 0 = all of them. */
  protected int ranksPerNode() {
    return 0;
  }

  /** The wire between nodes. */
  protected String wire() {
    return WireName.AUTO;
  }

  /** Whether the live ranks can reset the buffer while a rank is lost. */
  protected boolean resetsAfterALoss() {
    return true;
  }

  /** Number of kills, one after the other: each rank once. */
  protected int kills() {
    return RANKS;
  }

  @Test
  final void killedRanksRejoinOneAfterTheOtherAndAllResultsAreRight() throws Exception {
    run(Integer.getInteger("ep4j.kills", kills()), 0);
  }

  @Test
  final void newcomersThatDieWhileJoiningDelayNoRank() throws Exception {
    assumeTrue(resetsAfterALoss(), "a wire that refuses reset() after a loss");
    if (ranksPerNode() > 0) {
      TestScale.onlyInFull("rejoining ranks that die are tested within a node");
    }
    run(Integer.getInteger("ep4j.kills", TestScale.of(1, kills())), 2);
  }

  private void run(int kills, int deaths) throws Exception {
    Available.orSkip(engine());
    System.out.printf(
        "%s, %s: -Dep4j.seed=%d -Dep4j.kills=%d%n",
        getClass().getSimpleName(), engine(), seed, kills);
    SplittableRandom random = new SplittableRandom(seed);
    int first = random.nextInt(RANKS);
    int[] victims = IntStream.range(0, kills).map(i -> (first + i) % RANKS).toArray();
    List<String> arguments =
        new NodeArguments(ranksPerNode(), wire())
            .behind(
                List.of(
                    engine(),
                    IntStream.of(victims)
                        .mapToObj(Integer::toString)
                        .collect(Collectors.joining(","))));
    try (RankProcesses ranks = new ProcessWorld().start(RANKS, ReadmitJob.class, arguments)) {
      for (int attempt = 0; attempt < kills; attempt++) {
        int victim = victims[attempt];
        ranks.awaitOutputs(ReadmitJob.READY + attempt, -1, LIMIT);
        Thread.sleep(random.nextInt(100), random.nextInt(1_000_000));
        ranks.kill(victim);
        for (int i = 0; i < deaths; i++) {
          String crashPoint = String.valueOf(random.nextInt(CRASH_MILLIS));
          ranks.restart(victim, variables(attempt, Map.of(ReadmitJob.CRASH_POINT, crashPoint)));
          assertEquals(9, ranks.awaitExit(victim, LIMIT), ranks.outputs());
        }
        ranks.awaitOutputs(ReadmitJob.MASKED + attempt, victim, LIMIT);
        ranks.restart(victim, variables(attempt, Map.of()));
      }
      for (int rank = 0; rank < RANKS; rank++) {
        assertEquals(0, ranks.awaitExit(rank, LIMIT), ranks.outputs());
        assertTrue(ranks.output(rank).contains(ReadmitJob.DONE), ranks.outputs());
      }
      assertEquals(List.of(), ranks.leftFiles());
    }
  }

  private static Map<String, String> variables(int attempt, Map<String, String> more) {
    Map<String, String> all = new HashMap<>(more);
    all.put(RankMain.AGAIN, "true");
    all.put(ReadmitJob.ATTEMPT, String.valueOf(attempt + 1));
    return all;
  }
}
