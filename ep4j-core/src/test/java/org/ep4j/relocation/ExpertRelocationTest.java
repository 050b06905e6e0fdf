package org.ep4j.relocation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireName;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;
import org.ep4j.group.RankFailedException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.wire.LaneFailedException;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireTimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ExpertRelocationTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final int RANKS = 4;
  private static final int EXPERTS = 64;
  private static final int REPLICAS = 8;

  /** Odd, and two puts; all of them 8 MB. */
  private static final long EXPERT_BYTES =
      Boolean.getBoolean("ep4j.full") ? 8_000_000 : Transfer.CHUNK + 12_345;

  /** Bytes on their way while the receiver does not poll: both socket buffers hold less. */
  private static final long MORE_THAN_SOCKETS_HOLD = 64L << 20;

  /** The weights of one rank: byte i of expert e is {@code pattern(e, i)}. */
  private static final class Weights implements SlotMemory {
    final MemorySegment[] slots;

    Weights(Arena arena, ReplicatedPlacement placement, int rank, long bytes) {
      slots = new MemorySegment[placement.placement().localExperts(rank)];
      for (int local = 0; local < slots.length; local++) {
        slots[local] = arena.allocate(bytes, 64);
        int expert = expert(placement, rank, local);
        for (long i = 0; i < bytes; i++) {
          slots[local].set(ValueLayout.JAVA_BYTE, i, pattern(expert, i));
        }
      }
    }

    @Override
    public MemorySegment of(int local) {
      return slots[local];
    }

    /** The expert whose weights a slot holds. */
    int held(int local) {
      return slots[local].get(ValueLayout.JAVA_BYTE, 0);
    }

    void check(ReplicatedPlacement placement, int rank) {
      for (int local = 0; local < slots.length; local++) {
        int expert = expert(placement, rank, local);
        for (long i = 0; i < slots[local].byteSize(); i++) {
          if (slots[local].get(ValueLayout.JAVA_BYTE, i) != pattern(expert, i)) {
            throw new AssertionError(
                "byte %d of slot %d of rank %d is not that of expert %d"
                    .formatted(i, local, rank, expert));
          }
        }
      }
    }

    private static byte pattern(int expert, long i) {
      return (byte) (expert + 31 * i + (i >> 9));
    }

    private static int expert(ReplicatedPlacement placement, int rank, int local) {
      return placement.logicalOf(placement.placement().expertAt(rank, local));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {WireName.INPROC, WireName.TCP})
  void weightsMoveWhileOperationsContinue(String wire) {
    BufferConfig config = ExactSteps.config(ExpertPlacement.blocks(EXPERTS + REPLICAS, RANKS));
    ThreadRanks.run(
        RANKS,
        group -> {
          try (Arena arena = Arena.ofShared();
              ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            relocate(group, buffer, arena, wire);
          }
        });
  }

  private static void relocate(Group group, ExpertBuffer buffer, Arena arena, String wire) {
    int rank = group.rank();
    ReplicatedPlacement first = ExpertPlacement.balance(load(0), RANKS, REPLICAS);
    Weights weights = new Weights(arena, first, rank, EXPERT_BYTES);
    try (ExpertRelocation relocation =
        ExpertRelocation.open(
            group, first, weights, EXPERT_BYTES, WireConfig.builder().wire(wire))) {
      int step = 0;
      for (int round = 1; round <= 3; round++) {
        // Each rank has counted a part of the load.
        long[] own = load(round);
        Arrays.setAll(own, e -> own[e] * (1 + rank));
        long[] total = relocation.totalLoad(own, TIMEOUT);
        assertThat(total[5]).isEqualTo(load(round)[5] * 10);
        ReplicatedPlacement next =
            ExpertPlacement.balance(total, RANKS, REPLICAS).alignedTo(relocation.current(), RANKS);

        assertThat(relocation.begin(next, TIMEOUT)).isPositive();
        boolean all = false;
        while (!all) {
          ExactSteps.run(buffer, relocation.current(), rank, step++, weights::held);
          relocation.advance();
          // Ranks must agree on the step that changes the placement.
          byte done = (byte) (relocation.advance() ? 1 : 0);
          all = true;
          for (byte[] other : group.allGather(new byte[] {done}, TIMEOUT)) {
            all &= other[0] == 1;
          }
        }
        assertThat(relocation.commit(TIMEOUT)).isEqualTo(next);
        weights.check(next, rank);
        ExactSteps.run(buffer, relocation.current(), rank, step++, weights::held);
      }
    }
  }

  /** Every round other experts are hot. */
  private static long[] load(int round) {
    long[] load = new long[EXPERTS];
    Arrays.setAll(load, e -> 1 + 1000 / (1 + Math.floorMod(e - 17 * round, EXPERTS)));
    return load;
  }

  private interface Body {
    void run(Group group, ExpertRelocation relocation, Weights weights);
  }

  /** Two experts on two ranks, which exchange them in {@link #SWAPPED}. */
  private static final ReplicatedPlacement PLAIN =
      ReplicatedPlacement.of(ExpertPlacement.blocks(2, 2));

  private static final ReplicatedPlacement SWAPPED =
      ReplicatedPlacement.of(ExpertPlacement.blocks(2, 2), new int[] {1, 0}, 2);

  private static void onTwoRanks(String wire, long bytes, Body body) {
    onTwoRanks(() -> WireConfig.builder().wire(wire), bytes, body);
  }

  private static void onTwoRanks(Supplier<WireConfig.Builder> wire, long bytes, Body body) {
    ThreadRanks.run(
        2,
        group -> {
          try (Arena arena = Arena.ofShared()) {
            Weights weights = new Weights(arena, PLAIN, group.rank(), bytes);
            try (ExpertRelocation relocation =
                ExpertRelocation.open(group, PLAIN, weights, bytes, wire.get())) {
              body.run(group, relocation, weights);
            }
          }
        });
  }

  @Test
  void slotsKeepTheirWeightsUntilTheCommit() {
    onTwoRanks(
        WireName.TCP,
        3 * Transfer.CHUNK + 1,
        (group, relocation, weights) -> {
          assertThat(relocation.begin(SWAPPED, TIMEOUT)).isEqualTo(2);
          while (!relocation.advance()) {
            Thread.onSpinWait();
          }
          weights.check(PLAIN, group.rank());
          assertThat(relocation.current()).isEqualTo(PLAIN);
          relocation.commit(TIMEOUT);
          weights.check(SWAPPED, group.rank());
          assertThat(relocation.current()).isEqualTo(SWAPPED);
          assertThat(relocation.begin(SWAPPED, TIMEOUT)).isZero();
          relocation.commit(TIMEOUT);
          weights.check(SWAPPED, group.rank());
        });
  }

  @ParameterizedTest
  @ValueSource(strings = {WireName.INPROC, WireName.TCP})
  void allLanesOfAllProgressContextsCarryWeights(String wire) {
    onTwoRanks(
        () -> WireConfig.builder().wire(wire).lanes(4).progressContexts(2),
        5 * Transfer.CHUNK,
        (group, relocation, weights) -> {
          relocation.begin(SWAPPED, TIMEOUT);
          relocation.commit(TIMEOUT);
          weights.check(SWAPPED, group.rank());
        });
  }

  /** A sender may change its weights, or leave, when the wire no longer reads them. */
  @Test
  void aSenderIsDoneWhenItsWeightsHaveLeft() {
    ReplicatedPlacement before =
        ReplicatedPlacement.of(ExpertPlacement.blocks(4, 2), new int[] {0, 1, 2, 2}, 3);
    ReplicatedPlacement after =
        ReplicatedPlacement.of(ExpertPlacement.blocks(4, 2), new int[] {0, 1, 2, 0}, 3);
    CountDownLatch advanced = new CountDownLatch(1);
    ThreadRanks.run(
        2,
        group -> {
          try (Arena arena = Arena.ofShared()) {
            MemorySegment[] slots = {
              arena.allocate(MORE_THAN_SOCKETS_HOLD), arena.allocate(MORE_THAN_SOCKETS_HOLD)
            };
            // The wire accepts all puts at once.
            WireConfig.Builder wire =
                WireConfig.builder().wire(WireName.TCP).bytesInFlight(2 * MORE_THAN_SOCKETS_HOLD);
            try (ExpertRelocation relocation =
                ExpertRelocation.open(
                    group, before, local -> slots[local], MORE_THAN_SOCKETS_HOLD, wire)) {
              relocation.begin(after, TIMEOUT);
              if (group.rank() == 0) {
                for (int i = 0; i < 100; i++) {
                  assertThat(relocation.advance()).as("rank 1 has not polled").isFalse();
                }
                advanced.countDown();
              } else {
                await(advanced);
              }
              relocation.commit(TIMEOUT);
            }
          }
        });
  }

  @Test
  void aCommitNamesTheRanksWhoseWeightsAreMissingAndMayBeRepeated() {
    CountDownLatch timedOut = new CountDownLatch(1);
    onTwoRanks(
        WireName.TCP,
        1000,
        (group, relocation, weights) -> {
          relocation.begin(SWAPPED, TIMEOUT);
          if (group.rank() == 0) {
            assertThatThrownBy(() -> relocation.commit(Duration.ofMillis(100)))
                .isInstanceOf(WireTimeoutException.class)
                .hasMessageContaining("weights of experts of ranks [1]");
            timedOut.countDown();
          } else {
            await(timedOut);
          }
          relocation.commit(TIMEOUT);
          weights.check(SWAPPED, group.rank());
        });
  }

  private static void await(CountDownLatch latch) {
    try {
      assertThat(latch.await(TIMEOUT.toSeconds(), TimeUnit.SECONDS)).isTrue();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {WireName.INPROC, WireName.TCP})
  void aLostRankLeavesSlotsAndPlacement(String wire) {
    onTwoRanks(
        wire,
        1000,
        (group, relocation, weights) -> {
          relocation.begin(SWAPPED, TIMEOUT);
          if (group.rank() == 1) {
            relocation.close();
            return;
          }
          assertThatThrownBy(() -> relocation.commit(TIMEOUT))
              .isInstanceOf(LaneFailedException.class)
              .hasMessageContaining("rank 1");
          weights.check(PLAIN, 0);
          assertThat(relocation.current()).isEqualTo(PLAIN);
          state(() -> relocation.advance(), "close it and open another");
          state(() -> relocation.commit(TIMEOUT), "close it");
          state(() -> relocation.begin(SWAPPED, TIMEOUT), "close it");
        });
  }

  @Test
  void noRankCommitsWithoutTheOthers() {
    onTwoRanks(
        WireName.TCP,
        1000,
        (group, relocation, weights) -> {
          relocation.begin(SWAPPED, TIMEOUT);
          if (group.rank() == 1) {
            while (!relocation.advance()) {
              Thread.onSpinWait();
            }
            return;
          }
          assertThatThrownBy(() -> relocation.commit(TIMEOUT)).isInstanceOf(GroupException.class);
          weights.check(PLAIN, 0);
          assertThat(relocation.current()).isEqualTo(PLAIN);
          state(() -> relocation.commit(TIMEOUT), "close it");
        });
  }

  @Test
  void ranksWithDifferentPlacementsGetAnErrorAndContinue() {
    onTwoRanks(
        WireName.INPROC,
        1000,
        (group, relocation, weights) -> {
          assertThatThrownBy(() -> relocation.begin(group.rank() == 0 ? PLAIN : SWAPPED, TIMEOUT))
              .isInstanceOf(ConfigurationMismatchException.class)
              .hasMessageContaining("rank 1 relocates experts to other slots than rank 0");
          relocation.begin(SWAPPED, TIMEOUT);
          relocation.commit(TIMEOUT);
          weights.check(SWAPPED, group.rank());
        });
  }

  @Test
  void ranksWithOtherLengthsCannotOpen() {
    assertThatThrownBy(
            () ->
                ThreadRanks.run(
                    2,
                    group -> {
                      try (Arena arena = Arena.ofShared()) {
                        long bytes = 100L + group.rank();
                        ExpertRelocation.open(
                                group,
                                PLAIN,
                                new Weights(arena, PLAIN, group.rank(), bytes),
                                bytes,
                                WireConfig.builder().wire(WireName.INPROC))
                            .close();
                      }
                    }))
        .isInstanceOf(RankFailedException.class)
        .rootCause()
        .isInstanceOf(ConfigurationMismatchException.class)
        .hasMessageContaining("rank 1 relocates experts of another length than rank 0");
  }

  @Test
  void callsOutOfOrderAreRefused() {
    onTwoRanks(
        WireName.INPROC,
        1000,
        (group, relocation, weights) -> {
          assertThat(relocation.advance()).isTrue();
          state(() -> relocation.commit(TIMEOUT), "call begin first");
          relocation.begin(SWAPPED, TIMEOUT);
          state(() -> relocation.begin(PLAIN, TIMEOUT), "commit it first");
          relocation.commit(TIMEOUT);
          refused(
              () -> relocation.begin(ReplicatedPlacement.of(ExpertPlacement.blocks(3, 2)), TIMEOUT),
              ErrorCode.REPLICA_TABLE,
              "placement = 3 experts");
          refused(
              () -> relocation.totalLoad(new long[3], TIMEOUT), ErrorCode.EXPERT_LOAD, "3 experts");
          refused(
              () -> relocation.totalLoad(new long[] {0, -1}, TIMEOUT),
              ErrorCode.EXPERT_LOAD,
              "load[1] = -1");
          refused(
              () -> relocation.totalLoad(new long[] {0, Long.MAX_VALUE}, TIMEOUT),
              ErrorCode.EXPERT_LOAD,
              "a sum over");
          relocation.close();
          relocation.close();
          state(() -> relocation.advance(), "closed");
        });
  }

  @Test
  void memoryThatIsNoSlotIsRefused() {
    ThreadRanks.run(
        2,
        group -> {
          try (Arena arena = Arena.ofShared()) {
            MemorySegment bytes = arena.allocate(100);
            WireConfig.Builder wire = WireConfig.builder().wire(WireName.INPROC);
            refused(
                () -> ExpertRelocation.open(group, PLAIN, _ -> bytes, 99, wire),
                ErrorCode.SLOT_MEMORY,
                "slots.of(0) = 100 native bytes");
            refused(
                () ->
                    ExpertRelocation.open(
                        group, PLAIN, _ -> MemorySegment.ofArray(new byte[100]), 100, wire),
                ErrorCode.SLOT_MEMORY,
                "bytes on the heap");
            refused(
                () -> ExpertRelocation.open(group, PLAIN, _ -> bytes, 0, wire),
                ErrorCode.SLOT_MEMORY,
                "expertBytes = 0");
            refused(
                () ->
                    ExpertRelocation.open(
                        group,
                        ReplicatedPlacement.of(ExpertPlacement.blocks(3, 3)),
                        _ -> bytes,
                        100,
                        wire),
                ErrorCode.REPLICA_TABLE,
                "the 2 ranks");
          }
        });
  }

  @Test
  void theOthersLearnWhichRankIsRefusedAndWhy() {
    ThreadRanks.run(
        2,
        group -> {
          try (Arena arena = Arena.ofShared()) {
            boolean wrong = group.rank() == 1;
            MemorySegment slot = arena.allocate(wrong ? 99 : 100);
            assertThatThrownBy(
                    () ->
                        ExpertRelocation.open(
                            group,
                            PLAIN,
                            _ -> slot,
                            100,
                            WireConfig.builder().wire(WireName.INPROC)))
                .isInstanceOf(
                    wrong ? InvalidArgumentException.class : EngineUnavailableException.class)
                .hasMessageContaining(wrong ? "EP4J-1025: " : "rank 1: EP4J-1025: ")
                .hasMessageContaining("slots.of(0) = 99 native bytes");
          }
        });
  }

  private static void state(ThrowingCallable call, String text) {
    assertThatThrownBy(call)
        .isInstanceOf(IllegalUseException.class)
        .hasMessageStartingWith(ErrorCode.RELOCATION_STATE.id())
        .hasMessageContaining(text);
  }

  private static void refused(ThrowingCallable call, ErrorCode code, String text) {
    assertThatThrownBy(call)
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(code.id())
        .hasMessageContaining(text);
  }
}
