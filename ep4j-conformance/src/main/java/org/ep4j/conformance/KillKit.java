package org.ep4j.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.ep4j.config.BackendName;
import org.ep4j.config.WireName;
import org.ep4j.conformance.world.Available;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankProcesses;
import org.ep4j.conformance.world.TestScale;
import org.junit.jupiter.api.Test;

/**
 * A rank is killed (signal 9) at any moment: the other ranks must name it, continue without it, and
 * leave no files behind. Subclasses name the engine.
 *
 * <p>System properties: {@code ep4j.seed} repeats a run, {@code ep4j.kills} is the number of kills,
 * {@code ep4j.stops} that of ranks stopped for too long.
 */
public abstract class KillKit {
  /**
   * Far below the operations' own timeout of two minutes: the ranks must detect the death, not time
   * out.
   */
  private static final Duration LIMIT = Duration.ofSeconds(60);

  /** For ranks that are stopped until they count as dead. */
  private static final Duration SHORT_LIVENESS = Duration.ofSeconds(3);

  /** Reports of such a rank about itself; which one depends on where it was stopped. */
  private static final List<String> WAS_STOPPED =
      List.of(
          "continued without", "out of the group", "is this rank itself", "its report: this rank");

  /** Below the liveness timeout of ten seconds. */
  private static final int STOPPED_MILLIS = 2_000;

  private final long seed = TestScale.seed();

  /** Losses after which buffers continue; after other losses an error asks for a new buffer. */
  public enum Survivors {
    /** After any loss. */
    WITHOUT_ANY_RANK,
    /** After the loss of whole nodes only. */
    WITHOUT_WHOLE_NODES,
    /** After no loss. */
    WITH_ALL_RANKS
  }

  /** For subclasses. */
  protected KillKit() {}

  /** The engine, as in {@link org.ep4j.config.BufferConfig#engine()}. */
  protected abstract String engine();

  /** What these tests need besides the engine and this machine lacks; empty (default): nothing. */
  protected String missing() {
    return "";
  }

  /** Number of ranks, at least 2. */
  protected int ranks() {
    return 3;
  }

  /** Whether the engine has low-latency operations. */
  protected boolean lowLatency() {
    return true;
  }

  /** Ranks per node, 0 = all of them. */
  protected int ranksPerNode() {
    return 0;
  }

  /** The wire between nodes. */
  protected String wire() {
    return WireName.AUTO;
  }

  /** Losses after which buffers continue; after others the remaining ranks open another buffer. */
  protected Survivors goesOn() {
    return Survivors.WITHOUT_ANY_RANK;
  }

  /** As {@link org.ep4j.config.HighThroughputConfig#lostRanks}; default 0. */
  protected int lostRanks() {
    return 0;
  }

  /** Backend of the buffer that the remaining ranks open; {@code auto} (default): unchanged. */
  protected String nextBackend() {
    return BackendName.AUTO;
  }

  /** Wire of that buffer; unchanged by default. */
  protected String nextWire() {
    return wire();
  }

  /** Time after the ranks have joined within which a rank is killed while buffers open. */
  protected int openingMillis() {
    return 20;
  }

  /** Number of kills in each test; fewer by default, see {@link TestScale}. */
  protected int kills() {
    return 2;
  }

  /** Number of kills in a test: {@code usual} by default, {@link #kills()} in a full run. */
  private int times(int usual) {
    return Integer.getInteger("ep4j.kills", TestScale.of(usual, kills()));
  }

  private List<String> arguments() {
    List<String> own =
        List.of(
            engine(),
            String.valueOf(lowLatency()),
            goesOn().name(),
            nextBackend(),
            nextWire(),
            String.valueOf(lostRanks()));
    return new NodeArguments(ranksPerNode(), wire()).behind(own);
  }

  @Test
  final void aRankKilledInAnOperationIsNamedAndTheOthersContinue() throws Exception {
    SplittableRandom random = start("in operations");
    int first = random.nextInt(ranks());
    for (int i = 0; i < times(ranksPerNode() > 0 ? 2 : 1); i++) {
      try (RankProcesses ranks = new ProcessWorld().start(ranks(), KillJob.class, arguments())) {
        int victim = (first + i) % ranks();
        ranks.awaitOutputs(KillJob.RUNNING, -1, LIMIT);
        Thread.sleep(random.nextInt(100), random.nextInt(1_000_000));
        ranks.kill(victim);
        assertOthersEndWell(ranks, victim);
      }
    }
  }

  @Test
  final void aRankKilledWhileTheBufferOpensLeavesNothingBehind() throws Exception {
    SplittableRandom random = start("in open");
    for (int i = 0; i < times(1); i++) {
      try (RankProcesses ranks = new ProcessWorld().start(ranks(), KillJob.class, arguments())) {
        int victim = random.nextInt(ranks());
        ranks.awaitOutput(victim, KillJob.JOINED, LIMIT);
        Thread.sleep(random.nextInt(openingMillis()), random.nextInt(1_000_000));
        ranks.kill(victim);
        for (String output : outputsOfOthers(ranks, victim)) {
          assertTrue(output.contains(KillJob.SURVIVED) || output.contains(KillJob.ABORTED), output);
        }
      }
    }
  }

  @Test
  final void aRankStoppedForAWhileIsWaitedFor() throws Exception {
    stoppedRanksAreTriedOnOneNode();
    SplittableRandom random = start("stopped");
    int stopped = random.nextInt(ranks());
    try (RankProcesses ranks = new ProcessWorld().start(ranks(), KillJob.class, arguments())) {
      ranks.awaitOutputs(KillJob.RUNNING, -1, LIMIT);
      signal("STOP", ranks.pid(stopped));
      Thread.sleep(STOPPED_MILLIS);
      List<Integer> before = new ArrayList<>();
      for (int rank = 0; rank < ranks(); rank++) {
        assertFalse(ranks.output(rank).contains(KillJob.LOST), ranks.output(rank));
        before.add(ranks.output(rank).length());
      }
      signal("CONT", ranks.pid(stopped));
      for (int rank = 0; rank < ranks(); rank++) {
        ranks.awaitMoreOutput(rank, before.get(rank), LIMIT);
      }
      int victim = (stopped + 1) % ranks();
      ranks.kill(victim);
      assertOthersEndWell(ranks, victim);
    }
  }

  /**
   * The rank continues where it was stopped, possibly with a send in progress, while the other
   * ranks start again.
   */
  @Test
  final void aRankStoppedForTooLongDoesNotCallItselfLate() throws Exception {
    TestScale.onlyInFull("a rank stopped until the others have recovered passes the same states");
    stopForTooLong("stopped for too long", KillJob.LOST);
  }

  /** The rank continues while the other ranks use the memory that it was writing. */
  @Test
  final void aRankStoppedUntilTheOthersHaveRecoveredTakesNoPart() throws Exception {
    stopForTooLong("stopped until the others have reset", KillJob.RECOVERED);
  }

  /** The group detects the stop, whatever the transport between nodes. */
  private void stoppedRanksAreTriedOnOneNode() {
    if (ranksPerNode() > 0) {
      TestScale.onlyInFull("stopped ranks are tested within a node");
    }
  }

  /** Until all other ranks report it. */
  private void stopForTooLong(String where, String until) throws Exception {
    stoppedRanksAreTriedOnOneNode();
    SplittableRandom random = start(where);
    ProcessWorld world = new ProcessWorld(LIMIT, SHORT_LIVENESS);
    for (int i = 0; i < Integer.getInteger("ep4j.stops", 1); i++) {
      int stopped = random.nextInt(ranks());
      try (RankProcesses ranks = world.start(ranks(), KillJob.class, arguments())) {
        ranks.awaitOutputs(KillJob.RUNNING, -1, LIMIT);
        Thread.sleep(random.nextInt(100), random.nextInt(1_000_000));
        signal("STOP", ranks.pid(stopped));
        ranks.awaitOutputs(until, stopped, LIMIT);
        signal("CONT", ranks.pid(stopped));
        assertOthersEndWell(ranks, stopped);
        assertNotEquals(0, ranks.awaitExit(stopped, LIMIT), "a lost rank took part");
        String output = ranks.output(stopped);
        assertFalse(output.contains(": rank " + stopped + " is silent"), output);
        assertFalse(output.contains(": rank " + stopped + " is dead"), output);
        assertFalse(output.contains("all ranks must call the same"), output);
        assertTrue(WAS_STOPPED.stream().anyMatch(output::contains), output);
      }
    }
  }

  private void assertOthersEndWell(RankProcesses ranks, int victim) {
    for (String output : outputsOfOthers(ranks, victim)) {
      assertTrue(output.contains(KillJob.LOST + victim), output);
      assertTrue(output.contains(KillJob.SURVIVED), output);
    }
  }

  /** Output of the other ranks after they have ended; no file of the job has a name then. */
  private List<String> outputsOfOthers(RankProcesses ranks, int victim) {
    List<String> outputs = new ArrayList<>();
    for (int rank = 0; rank < ranks(); rank++) {
      if (rank != victim) {
        int exit = ranks.awaitExit(rank, LIMIT);
        assertEquals(0, exit, ranks.output(rank));
        outputs.add(ranks.output(rank));
      }
    }
    assertEquals(List.of(), ranks.leftFiles());
    return outputs;
  }

  private static void signal(String name, long pid) throws Exception {
    Process kill = new ProcessBuilder("kill", "-" + name, String.valueOf(pid)).start();
    assertTrue(kill.waitFor(LIMIT.toMillis(), TimeUnit.MILLISECONDS), "kill did not end");
    assertEquals(0, kill.exitValue(), "kill -" + name);
  }

  private SplittableRandom start(String where) {
    Available.orSkip(engine(), missing());
    System.out.printf(
        "%s, %s: -Dep4j.seed=%d -Dep4j.kills=%d %s%n",
        getClass().getSimpleName(), engine(), seed, times(1), where);
    return new SplittableRandom(seed);
  }
}
