package org.ep4j.verify.worlds;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.Objects;
import java.util.SplittableRandom;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.config.BufferConfig;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.junit.jupiter.api.Test;

/** Low latency in worlds, shapes and orders of calls drawn from a seed, against the oracle. */
class LowLatencyPropertyTest {
  private static final int WORLDS = 60;
  private static final int ROUNDS = 8;

  @Test
  void everyWorldMatchesTheOracle() {
    long seed = Long.getLong("ep4j.seed", 1);
    System.out.println("LowLatencyPropertyTest: -Dep4j.seed=" + seed);
    for (int i = 0; i < WORLDS; i++) {
      runWorld(seed + i);
    }
  }

  private static void runWorld(long seed) {
    BufferConfig config = config(new SplittableRandom(seed));
    int ranks = Objects.requireNonNull(config.placement()).ranks();
    try {
      ThreadRanks.run(ranks, Duration.ofSeconds(60), group -> runRank(group, config, seed));
    } catch (RuntimeException e) {
      throw new AssertionError("seed " + seed + ", " + config, e);
    }
  }

  private static BufferConfig config(SplittableRandom random) {
    int ranks = 1 + random.nextInt(5);
    int experts = 1 + random.nextInt(20);
    int[] rankOf = new int[experts];
    for (int e = 0; e < experts; e++) {
      rankOf[e] = random.nextInt(ranks); // some ranks may own no expert
    }
    return BufferConfig.builder()
        .hidden(128 * (1 + random.nextInt(8)))
        .placement(
            random.nextBoolean()
                ? ExpertPlacement.blocks(experts, ranks)
                : ExpertPlacement.table(rankOf, ranks))
        .topK(1 + random.nextInt(Math.min(experts, BufferConfig.MAX_TOP_K)))
        .lowLatency(1 + random.nextInt(12))
        .build();
  }

  private static void runRank(Group group, BufferConfig config, long seed) {
    SplittableRandom random = new SplittableRandom(~seed);
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config);
        Arena arena = Arena.ofShared()) {
      for (int i = 0; i < ROUNDS; i++) {
        if (random.nextBoolean()) {
          LowLatencyRound round =
              new LowLatencyRound(config, group.rank(), random.nextLong(), false, arena);
          LowLatencyDispatch d = round.dispatch(buffer);
          round.check(d);
          round.check(round.combine(buffer, d));
        } else {
          overlap(buffer, config, random, arena);
        }
      }
    }
  }

  /** Two dispatches in flight, then two combines, their hooks in any order. */
  private static void overlap(
      ExpertBuffer buffer, BufferConfig config, SplittableRandom random, Arena arena) {
    int rank = buffer.rank();
    LowLatencyRound a = new LowLatencyRound(config, rank, random.nextLong(), true, arena);
    LowLatencyRound b = new LowLatencyRound(config, rank, random.nextLong(), true, arena);
    boolean swapped = (random.nextInt(4) + rank) % 4 == 0;
    LowLatencyDispatch da = a.dispatch(buffer);
    LowLatencyDispatch db = b.dispatch(buffer);
    (swapped ? db : da).hook().receive();
    (swapped ? da : db).hook().receive();
    a.check(da);
    b.check(db);
    LowLatencyCombine ca = a.combine(buffer, da);
    LowLatencyCombine cb = b.combine(buffer, db);
    (swapped ? cb : ca).hook().receive();
    (swapped ? ca : cb).hook().receive();
    a.check(ca);
    b.check(cb);
  }
}
