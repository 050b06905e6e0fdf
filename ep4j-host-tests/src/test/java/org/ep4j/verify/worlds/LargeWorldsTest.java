package org.ep4j.verify.worlds;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireName;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Worlds of 16 to 256 ranks in 1 to 32 nodes against the oracle, with tiny shapes. Where there are
 * more than four nodes, a token chooses experts of four of them.
 */
class LargeWorldsTest {
  private static final Duration LIMIT = Duration.ofMinutes(5);

  /** Every rank sends one, so that some rank gets rows of all others. */
  private static final int TOKENS = 4;

  /**
   * A size in which worlds are drawn.
   *
   * @param wire between nodes
   * @param worlds number of worlds of each kind
   */
  record WorldSize(int ranks, int nodes, String wire, int worlds) {
    int ranksPerNode() {
      return nodes == 1 ? 0 : ranks / nodes;
    }

    @Override
    public String toString() {
      return "%d ranks in %d nodes%s".formatted(ranks, nodes, nodes == 1 ? "" : " over " + wire);
    }
  }

  static Stream<WorldSize> sizes() {
    List<WorldSize> usual =
        List.of(
            new WorldSize(16, 2, WireName.TCP, TestScale.of(1, 10)),
            new WorldSize(16, 8, WireName.INPROC, TestScale.of(1, 10)),
            new WorldSize(64, 8, WireName.INPROC, TestScale.of(1, 5)));
    List<WorldSize> all =
        List.of(
            new WorldSize(16, 1, WireName.AUTO, 10),
            new WorldSize(16, 8, WireName.TCP, 10),
            new WorldSize(64, 1, WireName.AUTO, 5),
            new WorldSize(64, 2, WireName.INPROC, 5),
            new WorldSize(64, 8, WireName.TCP, 3),
            new WorldSize(64, 32, WireName.INPROC, 5),
            new WorldSize(256, 1, WireName.AUTO, 3),
            new WorldSize(256, 2, WireName.INPROC, 3),
            new WorldSize(256, 8, WireName.INPROC, 3),
            new WorldSize(256, 32, WireName.INPROC, 3));
    return Stream.concat(usual.stream(), all.stream().limit(TestScale.of(0, all.size())));
  }

  @ParameterizedTest
  @MethodSource("sizes")
  void highThroughputMatchesTheOracle(WorldSize size) {
    forEachWorld(
        size,
        seed -> {
          SplittableRandom random = new SplittableRandom(seed);
          int experts = size.ranks * (1 + random.nextInt(2)) - random.nextInt(size.ranks / 4);
          new RandomWorld(
                  seed,
                  new RandomWorld.Size(size.ranks, size.ranksPerNode(), size.wire, experts, TOKENS))
              .run(LIMIT);
        });
  }

  @ParameterizedTest
  @MethodSource("sizes")
  void lowLatencyMatchesTheOracle(WorldSize size) {
    forEachWorld(
        size,
        seed -> {
          SplittableRandom random = new SplittableRandom(seed);
          BufferConfig config =
              BufferConfig.builder()
                  .hidden(128 * (1 + random.nextInt(4)))
                  .experts(size.ranks * (1 + random.nextInt(2)))
                  .topK(1 + random.nextInt(4))
                  .lowLatency(1 + random.nextInt(TOKENS))
                  .ranksPerNode(size.ranksPerNode())
                  .wire(size.wire)
                  .build();
          ThreadRanks.run(
              size.ranks,
              LIMIT,
              group -> {
                try (ExpertBuffer buffer = ExpertBuffer.open(group, config);
                    Arena arena = Arena.ofShared()) {
                  for (int i = 0; i < 2; i++) {
                    LowLatencyRound round =
                        new LowLatencyRound(buffer.config(), group.rank(), seed + i, i == 1, arena);
                    LowLatencyDispatch d = round.dispatch(buffer);
                    if (i == 1) {
                      d.hook().receive();
                    }
                    round.check(d);
                    LowLatencyCombine c = round.combine(buffer, d);
                    if (i == 1) {
                      c.hook().receive();
                    }
                    round.check(c);
                  }
                }
              });
        });
  }

  private interface OneWorld {
    void run(long seed);
  }

  private static void forEachWorld(WorldSize size, OneWorld world) {
    for (int i = 0; i < size.worlds; i++) {
      long seed = TestScale.seed() + i;
      long start = System.nanoTime();
      try {
        world.run(seed);
      } catch (RuntimeException | AssertionError e) {
        throw new AssertionError(size + ", -Dep4j.seed=" + seed, e);
      }
      System.out.printf("%s, seed %d: %.1f s%n", size, seed, (System.nanoTime() - start) / 1e9);
    }
  }
}
