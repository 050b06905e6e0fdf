package org.ep4j.cuda.internode;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.Wires;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Real wires with work as from a proxy. */
class InternodeQuiesceTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(20);
  private static final int LANES = 4;
  private static final int PROGRESS_CONTEXTS = 2;
  private static final int ARRIVED = 0;
  private static final int QUIESCE = 1;
  private static final int BYTES = 4096;
  private static final int MAX_PUTS = 300;

  /** No rank is dead. */
  private static boolean[] nobody(Wire wire) {
    return new boolean[wire.size()];
  }

  /** The last rank is dead. */
  private static boolean[] last(Wire wire) {
    boolean[] gone = nobody(wire);
    gone[gone.length - 1] = true;
    return gone;
  }

  private static Wire wire(Group group, String name) {
    return Wires.open(
        group,
        WireConfig.builder()
            .wire(name)
            .lanes(LANES)
            .progressContexts(PROGRESS_CONTEXTS)
            .counters(QUIESCE + group.size())
            .timeout(TIMEOUT)
            .build());
  }

  @ParameterizedTest
  @CsvSource({"inproc, 2", "inproc, 4", "tcp, 2", "tcp, 3"})
  void allWorkOfLanesHasArrivedAfterwards(String name, int ranks) {
    long seed = TestScale.seed();
    System.out.printf("InternodeQuiesceTest, %s, %d ranks: seed %d%n", name, ranks, seed);
    ThreadRanks.run(
        ranks,
        group -> {
          try (Wire wire = wire(group, name)) {
            Region region = wire.allocate((long) ranks * BYTES, TIMEOUT);
            InternodeQuiesce quiesce = new InternodeQuiesce(wire, QUIESCE);
            for (int round = 1; round <= 5; round++) {
              begun(group, wire, region, seed + round);
              assertThat(quiesce.await(nobody(wire), nobody(wire), round, TIMEOUT)).isEmpty();
              group.barrier(TIMEOUT);
              hasCome(wire, region, seed + round, ranks);
              clear(wire.counters());
              group.barrier(TIMEOUT);
            }
          }
        });
  }

  /** A rank leaves during the round, and the others notice at different moments, or not at all. */
  @ParameterizedTest
  @CsvSource({"inproc, 3", "tcp, 2", "tcp, 3", "tcp, 4"})
  void survivorsMayRepeatTheRound(String name, int ranks) {
    long seed = TestScale.seed();
    System.out.printf(
        "InternodeQuiesceTest, %s, %d ranks, one leaves: seed %d%n", name, ranks, seed);
    ThreadRanks.run(
        ranks,
        group -> {
          int rank = group.rank();
          SplittableRandom random = new SplittableRandom(seed + rank);
          try (Wire wire = wire(group, name)) {
            Region region = wire.allocate((long) ranks * BYTES, TIMEOUT);
            InternodeQuiesce quiesce = new InternodeQuiesce(wire, QUIESCE);
            begun(group, wire, region, seed);
            if (rank == ranks - 1) {
              String _ = quiesce.await(nobody(wire), nobody(wire), 1, Duration.ZERO);
              return;
            }
            // Some ranks have sent last adds on some lanes, and some on none.
            for (int time = 1; time <= 2 && random.nextInt(3) > 0; time++) {
              Duration timeout = random.nextBoolean() ? Duration.ZERO : Duration.ofMillis(100);
              String _ = quiesce.await(nobody(wire), nobody(wire), time, timeout);
            }
            try (Group live = group.survivors(TIMEOUT)) {
              for (int time = 3; time <= 5; time++) {
                assertThat(quiesce.await(last(wire), last(wire), time, TIMEOUT)).isEmpty();
                live.barrier(TIMEOUT);
                if (time == 3) {
                  hasCome(wire, region, seed, ranks - 1);
                }
                live.barrier(TIMEOUT);
              }
            }
          }
        });
  }

  /**
   * On wires that sever: data that a stopped rank has sent, or sends later, must not reach cleared
   * memory.
   */
  @Test
  void nothingArrivesFromALostRank() {
    int ranks = 3;
    CountDownLatch cleared = new CountDownLatch(ranks - 1);
    CountDownLatch over = new CountDownLatch(ranks - 1);
    ThreadRanks.run(
        ranks,
        group -> {
          try (Wire wire = wire(group, "tcp")) {
            assertThat(wire.severs()).isTrue();
            Region region = wire.allocate((long) ranks * BYTES, TIMEOUT);
            group.barrier(TIMEOUT);
            if (group.rank() == ranks - 1) {
              region.segment().fill((byte) 1);
              assertThat(putToAll(wire, region)).isPositive();
              group.fail("stopped");
              assertThat(cleared.await(TIMEOUT.toMillis(), TimeUnit.MILLISECONDS)).isTrue();
              putToAll(wire, region);
              assertThat(over.await(TIMEOUT.toMillis(), TimeUnit.MILLISECONDS)).isTrue();
              return;
            }
            try (Group live = group.survivors(TIMEOUT)) {
              InternodeQuiesce quiesce = new InternodeQuiesce(wire, QUIESCE);
              assertThat(quiesce.await(last(wire), last(wire), 1, TIMEOUT)).isEmpty();
              region.segment().fill((byte) 0);
              long counted = wire.counters().get(ARRIVED);
              cleared.countDown();
              live.barrier(TIMEOUT);
              long end = System.nanoTime() + Duration.ofMillis(300).toNanos();
              while (System.nanoTime() - end < 0) {
                poll(wire);
              }
              assertThat(region.segment().mismatch(zeros(region))).isEqualTo(-1);
              assertThat(wire.counters().get(ARRIVED)).isEqualTo(counted);
            } finally {
              over.countDown();
            }
          }
        });
  }

  /** Peers write mapped memory without this side. */
  @Test
  void wiresOfMappedMemoryDoNotSever() {
    ThreadRanks.run(
        2,
        group -> {
          try (Wire wire = wire(group, "inproc")) {
            assertThat(wire.severs()).isFalse();
          }
        });
  }

  /** A rank that counts as dead but has a working lane may still send. */
  @Test
  void lanesToALostRankMustEnd() {
    ThreadRanks.run(
        2,
        group -> {
          try (Wire wire = wire(group, "tcp")) {
            if (group.rank() == 0) {
              String problem =
                  new InternodeQuiesce(wire, QUIESCE)
                      .await(last(wire), last(wire), 1, Duration.ofMillis(200));
              assertThat(problem).isEqualTo("lane 0 to dead rank 1 did not end in time");
            }
            group.barrier(TIMEOUT);
          }
        });
  }

  @ParameterizedTest
  @CsvSource({"inproc", "tcp"})
  void failedWireIsReported(String name) {
    ThreadRanks.run(
        2,
        group -> {
          try (Wire wire = wire(group, name)) {
            if (group.rank() == 1) {
              return;
            }
            assertThat(
                    new InternodeQuiesce(wire, QUIESCE)
                        .await(nobody(wire), nobody(wire), 1, TIMEOUT))
                .contains("the wire to rank 1 has failed");
          }
        });
  }

  @Test
  void aLaneWithoutAFinalAddIsAwaitedUntilTheDeadline() {
    ThreadRanks.run(
        2,
        group -> {
          try (Wire wire = wire(group, "inproc")) {
            for (int lane = 1; group.rank() == 1 && lane < LANES; lane++) {
              assertThat(wire.lane(0, lane).add(QUIESCE + 1, 1)).isPositive();
            }
            group.barrier(TIMEOUT);
            if (group.rank() == 0) {
              String problem =
                  new InternodeQuiesce(wire, QUIESCE)
                      .await(nobody(wire), nobody(wire), 1, Duration.ofMillis(200));
              assertThat(problem).isEqualTo("1 of 4 final adds of rank 1 did not arrive in time");
            }
            group.barrier(TIMEOUT);
          }
        });
  }

  /** Number of puts of one round from a rank to another. */
  private static int puts(long seed, int from, int to) {
    return new SplittableRandom(seed * 31 + from * 8L + to).nextInt(MAX_PUTS);
  }

  private static void begun(Group group, Wire wire, Region region, long seed) {
    int rank = group.rank();
    // The source offset equals the offset of this rank's bytes in the target.
    long at = (long) rank * BYTES;
    region.segment().asSlice(at, BYTES).fill((byte) seed);
    for (int peer = 0; peer < group.size(); peer++) {
      for (int i = 0; peer != rank && i < puts(seed, rank, peer); i++) {
        Lane lane = wire.lane(peer, i % LANES);
        while (lane.put(region, at, region, at, BYTES, ARRIVED) == Lane.BACK_PRESSURED) {
          poll(wire);
        }
      }
    }
  }

  private static void poll(Wire wire) {
    for (int progressContext = 0; progressContext < PROGRESS_CONTEXTS; progressContext++) {
      wire.poll(progressContext);
    }
  }

  private static MemorySegment zeros(Region region) {
    return MemorySegment.ofArray(new byte[(int) region.bytes()]);
  }

  /** Puts to all others until their lanes are full; returns the number. */
  private static long putToAll(Wire wire, Region region) {
    long puts = 0;
    for (int peer = 0; peer < wire.size() - 1; peer++) {
      for (int i = 0; i < MAX_PUTS; i++) {
        Lane lane = wire.lane(peer, i % LANES);
        puts += lane.put(region, 0, region, 0, BYTES, ARRIVED) > 0 ? 1 : 0;
        poll(wire);
      }
    }
    return puts;
  }

  /** Checks the bytes from the first ranks; data of the others may have arrived or not. */
  private static void hasCome(Wire wire, Region region, long seed, int ranks) {
    long wanted = 0;
    for (int peer = 0; peer < ranks; peer++) {
      int puts = peer == wire.rank() ? 0 : puts(seed, peer, wire.rank());
      wanted += puts;
      for (long i = 0; puts > 0 && i < BYTES; i++) {
        byte found = region.segment().get(ValueLayout.JAVA_BYTE, (long) peer * BYTES + i);
        assertThat(found).as("byte %d of rank %d", i, peer).isEqualTo((byte) seed);
      }
    }
    long max = wanted;
    for (int peer = ranks; peer < wire.size(); peer++) {
      max += puts(seed, peer, wire.rank());
    }
    assertThat(wire.counters().get(ARRIVED)).isBetween(wanted, max);
  }

  private static void clear(Counters counters) {
    counters.add(ARRIVED, -counters.get(ARRIVED));
  }
}
