package org.ep4j.routing;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

class ReplicatedPlacementTest {
  private static final long SEED = Long.getLong("ep4j.seed", 20261127L);

  /** Physical experts 0 and 2 are replicas of expert 0, 1 and 3 those of 1 and 2. */
  private static final ReplicatedPlacement SMALL =
      ReplicatedPlacement.of(ExpertPlacement.blocks(4, 2), new int[] {0, 1, 0, 2}, 3);

  @Test
  void tablesAreReadInBothDirections() {
    assertThat(SMALL.experts()).isEqualTo(3);
    assertThat(SMALL.ranks()).isEqualTo(2);
    assertThat(SMALL.replicas(0)).isEqualTo(2);
    assertThat(SMALL.replica(0, 0)).isZero();
    assertThat(SMALL.replica(0, 1)).isEqualTo(2);
    assertThat(SMALL.replicas(2)).isEqualTo(1);
    assertThat(SMALL.logicalOf(3)).isEqualTo(2);
    assertThat(SMALL).hasToString("3 experts with 1 further replicas on 2 ranks");
  }

  @Test
  void choicesOfAnExpertAlternateBetweenItsReplicas() {
    Routing logical = Routing.of(new int[] {0, 1, 2, 0, -1, 0, 0, -1}, new float[8], 2);

    assertThat(SMALL.physicalRouting(logical, 0).topkIdx().toLongArray())
        .containsExactly(0, 1, 3, 2, -1, 0, 2, -1);
    // Rank 1 begins at the other replica.
    assertThat(SMALL.physicalRouting(logical, 1).topkIdx().toLongArray())
        .containsExactly(2, 1, 3, 0, -1, 2, 0, -1);
  }

  @Test
  void typesAndWeightsStay() {
    float[] weights = {.25f, .75f};
    Routing ints = SMALL.physicalRouting(Routing.of(new int[] {0, 2}, weights, 2), 1);
    Routing longs = SMALL.physicalRouting(Routing.of(new long[] {0, 2}, weights, 2), 1);
    Routing bare = SMALL.physicalRouting(Routing.of(Tensor.of(new long[] {0, 2}, 1, 2)), 1);

    assertThat(ints.topkIdx().dtype()).isEqualTo(DType.INT32);
    assertThat(longs.topkIdx().dtype()).isEqualTo(DType.INT64);
    assertThat(ints.topkIdx().toLongArray()).isEqualTo(longs.topkIdx().toLongArray());
    assertThat(ints.topkWeights()).isNotNull();
    assertThat(ints.topkWeights().toFloatArray()).containsExactly(weights);
    assertThat(bare.topkWeights()).isNull();
    assertThat(SMALL.physicalRouting(Routing.of(new int[0], new float[0], 8), 0).tokens()).isZero();
  }

  @Test
  void weightsOfAMatrixKeepTheLogicalIds() {
    Routing routing = SMALL.physicalRouting(Routing.of(new int[] {0, 2, 1, 0}, new float[4], 2), 0);

    Routing weighted = routing.withDenseWeights(Tensor.of(new float[8], 2, 4));

    assertThat(weighted.logicalIdx()).isNotNull().isEqualTo(routing.logicalIdx());
  }

  @Test
  void tokensKeepTheirExpertsAndReplicasShareThem() {
    Random random = new Random(SEED);
    int experts = 32;
    int ranks = 8;
    int topK = 4;
    int tokens = 64;
    long[] load = new long[experts];
    long[][] chosen = new long[ranks][];
    for (int rank = 0; rank < ranks; rank++) {
      chosen[rank] = new long[tokens * topK];
      for (int t = 0; t < tokens; t++) {
        Set<Long> token = new HashSet<>();
        while (token.size() < topK) {
          double u = random.nextDouble();
          token.add((long) (experts * u * u * u));
        }
        int at = t * topK;
        for (long expert : token) {
          chosen[rank][at++] = expert;
          load[(int) expert]++;
        }
      }
    }
    ReplicatedPlacement balanced = ExpertPlacement.balance(load, ranks, 8);

    int[] received = new int[balanced.placement().experts()];
    for (int rank = 0; rank < ranks; rank++) {
      Routing logical = Routing.of(chosen[rank], new float[tokens * topK], topK);
      long[] physical = balanced.physicalRouting(logical, rank).topkIdx().toLongArray();
      for (int i = 0; i < physical.length; i++) {
        assertThat(balanced.logicalOf((int) physical[i])).isEqualTo((int) chosen[rank][i]);
        received[(int) physical[i]]++;
      }
    }

    double[] loads = balanced.rankLoads(load);
    double[] rows = new double[ranks];
    for (int p = 0; p < received.length; p++) {
      int e = balanced.logicalOf(p);
      // Each rank divides its choices evenly, or gives some replicas one more.
      assertThat((double) received[p])
          .as("replica %d of expert %d", p, e)
          .isCloseTo((double) load[e] / balanced.replicas(e), within((double) ranks));
      rows[balanced.placement().rankOf(p)] += received[p];
    }
    for (int rank = 0; rank < ranks; rank++) {
      assertThat(rows[rank] / loads[rank]).isCloseTo(1, within(0.05));
    }
  }

  @Test
  void rowsOfReplicasAreTheLoadOfTheirExpert() {
    assertThat(SMALL.logicalLoad(new long[] {7, 3, 4, 5})).containsExactly(11, 3, 5);
    assertThat(
            ReplicatedPlacement.of(ExpertPlacement.blocks(3, 3)).logicalLoad(new long[] {1, 0, 2}))
        .containsExactly(1, 0, 2);
    // Rows of physical experts would be balanced as if there were four experts.
    ReplicatedPlacement next =
        ExpertPlacement.balance(SMALL.logicalLoad(new long[] {7, 3, 4, 5}), 2, 1);
    assertThat(next.experts()).isEqualTo(3);
    assertThat(next.placement()).isEqualTo(SMALL.placement());
  }

  @Test
  void rowsThatAreNotThoseOfTheSlotsAreRefused() {
    refusedRows("rows = 3 experts; it must be 4 physical experts", 1, 2, 3);
    refusedRows("rows[2] = -1; it must be >= 0", 1, 2, -1, 3);
    refusedRows("rows of expert 0 = a sum over 2^63", Long.MAX_VALUE, 0, 1, 0);
  }

  private static void refusedRows(String message, long... rows) {
    assertThatThrownBy(() -> SMALL.logicalLoad(rows))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.EXPERT_LOAD.id())
        .hasMessageContaining(message);
  }

  @Test
  void loadsDivideAmongReplicas() {
    long[] load = {10, 3, 5};

    assertThat(SMALL.rankLoads(load)).containsExactly(8, 10);
    assertThat(SMALL.balancedness(load)).isCloseTo(0.9, within(1e-12));
    assertThat(SMALL.balancedness(new long[3])).isEqualTo(1);
    refused(() -> SMALL.rankLoads(new long[4]), ErrorCode.EXPERT_LOAD, "4 experts", "3 experts");
  }

  @Test
  void alignedPlacementsKeepLoadsAndMoveFewExperts() {
    Random random = new Random(SEED);
    long moved = 0;
    long movedBefore = 0;
    for (int i = 0; i < 200; i++) {
      int ranksPerNode = 1 + random.nextInt(4);
      int ranks = ranksPerNode * (1 + random.nextInt(4));
      int experts = ranks * (1 + random.nextInt(6));
      int replicas = ranks == 1 ? 0 : random.nextInt(experts);
      long[] load = random.longs(experts, 1, 1000).toArray();
      ReplicatedPlacement current = ExpertPlacement.balance(load, ranks, replicas);
      for (int e = 0; e < experts; e++) {
        load[e] += random.nextInt(50);
      }
      ReplicatedPlacement next = ExpertPlacement.balance(load, ranks, replicas);

      ReplicatedPlacement aligned = next.alignedTo(current, ranks);
      ReplicatedPlacement onNodes = next.alignedTo(current, ranksPerNode);

      for (ReplicatedPlacement other : new ReplicatedPlacement[] {aligned, onNodes}) {
        assertThat(other.placement()).isEqualTo(next.placement());
        assertThat(rankSets(other, 1)).containsExactlyInAnyOrderElementsOf(rankSets(next, 1));
        assertThat(other.balancedness(load)).isCloseTo(next.balancedness(load), within(1e-9));
      }
      if (aligned.placement().experts() % ranks == 0) {
        assertThat(rankSets(onNodes, ranksPerNode))
            .containsExactlyInAnyOrderElementsOf(rankSets(next, ranksPerNode));
      }
      assertThat(current.alignedTo(current, ranks)).isEqualTo(current);
      moved += moves(current, aligned);
      movedBefore += moves(current, next);
    }
    System.out.println("slots that change: " + movedBefore + ", aligned " + moved);
    assertThat(moved).isLessThan(movedBefore * 4 / 5);
  }

  @Test
  void ranksThatExchangeAllTheirExpertsAreRenamed() {
    ExpertPlacement slots = ExpertPlacement.blocks(6, 3);
    ReplicatedPlacement current = ReplicatedPlacement.of(slots, new int[] {0, 1, 2, 3, 4, 5}, 6);
    ReplicatedPlacement renamed = ReplicatedPlacement.of(slots, new int[] {5, 4, 1, 0, 3, 2}, 6);

    assertThat(renamed.alignedTo(current, 3)).isEqualTo(current);
    assertThat(renamed.alignedTo(current, 1)).isEqualTo(current);
    table(() -> renamed.alignedTo(current, 2), "ranksPerNode = 2", "a divisor of 3");
    ReplicatedPlacement other = ReplicatedPlacement.of(ExpertPlacement.blocks(6, 2));
    refused(() -> other.alignedTo(current, 2), ErrorCode.REPLICA_TABLE, "current = 6 experts");
  }

  /** Both nodes have four slots, but the ranks of only one of them have equally many. */
  @Test
  void nodesWhoseRanksHaveOtherNumbersOfSlotsKeepTheirExperts() {
    ExpertPlacement slots = ExpertPlacement.table(new int[] {0, 0, 0, 1, 2, 2, 3, 3}, 4);
    ReplicatedPlacement current =
        ReplicatedPlacement.of(slots, new int[] {0, 1, 2, 3, 4, 5, 6, 7}, 8);
    ReplicatedPlacement next = ReplicatedPlacement.of(slots, new int[] {4, 5, 6, 7, 0, 1, 2, 3}, 8);

    ReplicatedPlacement aligned = next.alignedTo(current, 2);

    assertThat(aligned.placement()).isEqualTo(slots);
    assertThat(rankSets(aligned, 1)).containsExactlyInAnyOrderElementsOf(rankSets(next, 1));
    assertThat(rankSets(aligned, 2)).isEqualTo(rankSets(next, 2));
  }

  private static int moves(ReplicatedPlacement from, ReplicatedPlacement to) {
    int moves = 0;
    for (int p = 0; p < to.placement().experts(); p++) {
      moves += from.logicalOf(p) == to.logicalOf(p) ? 0 : 1;
    }
    return moves;
  }

  /** The experts of each node, ascending. */
  private static List<List<Integer>> rankSets(ReplicatedPlacement placement, int ranksPerNode) {
    List<List<Integer>> sets = new ArrayList<>();
    for (int node = 0; node < placement.ranks() / ranksPerNode; node++) {
      List<Integer> experts = new ArrayList<>();
      for (int p = 0; p < placement.placement().experts(); p++) {
        if (placement.placement().rankOf(p) / ranksPerNode == node) {
          experts.add(placement.logicalOf(p));
        }
      }
      experts.sort(null);
      sets.add(experts);
    }
    return sets;
  }

  @Test
  void everyExpertOnceIsThePlacementItself() {
    ExpertPlacement blocks = ExpertPlacement.blocks(6, 4);
    ReplicatedPlacement plain = ReplicatedPlacement.of(blocks);
    Routing routing = Routing.of(new int[] {5, 0, -1, 3}, new float[4], 2);

    assertThat(plain.placement()).isEqualTo(blocks);
    assertThat(plain.physicalRouting(routing, 3).topkIdx().toLongArray())
        .containsExactly(5, 0, -1, 3);
    assertThat(plain)
        .isEqualTo(ReplicatedPlacement.of(blocks, new int[] {0, 1, 2, 3, 4, 5}, 6))
        .isNotEqualTo(ReplicatedPlacement.of(blocks, new int[] {0, 1, 2, 3, 5, 4}, 6))
        .isNotEqualTo(ReplicatedPlacement.of(ExpertPlacement.blocks(6, 3)));
  }

  @Test
  void tablesThatDoNotFitAreRefused() {
    ExpertPlacement four = ExpertPlacement.blocks(4, 2);
    table(() -> ReplicatedPlacement.of(four, new int[] {0, 1, 2}, 3), "logicalOf.length = 3", "4");
    table(() -> ReplicatedPlacement.of(four, new int[] {0, 1, 2, 3}, 3), "logicalOf[3] = 3");
    table(() -> ReplicatedPlacement.of(four, new int[] {0, 1, -1, 2}, 3), "logicalOf[2] = -1");
    table(
        () -> ReplicatedPlacement.of(four, new int[] {0, 0, 2, 2}, 3), "replicas of expert 1 = 0");
    table(() -> ReplicatedPlacement.of(four, new int[4], 5), "experts = 5", "1..4");
    table(() -> ReplicatedPlacement.of(four, new int[4], 0), "experts = 0");
  }

  @Test
  void choicesOfNoExpertAndRanksThatDoNotExistAreRefused() {
    for (long id : new long[] {3, -2, Long.MAX_VALUE, 1L << 32}) {
      Routing routing = Routing.of(new long[] {0, 1, 2, id}, new float[4], 2);
      refused(
          () -> SMALL.physicalRouting(routing, 0),
          ErrorCode.NO_SUCH_EXPERT,
          "topkIdx[1, 1] = " + id,
          "-1..2");
    }
    Routing routing = Routing.of(new int[2], new float[2], 1);
    table(() -> SMALL.physicalRouting(routing, 2), "rank = 2");
    table(() -> SMALL.physicalRouting(routing, -1), "rank = -1");
  }

  private static void table(ThrowingCallable call, String... texts) {
    refused(call, ErrorCode.REPLICA_TABLE, texts);
  }

  private static void refused(ThrowingCallable call, ErrorCode code, String... texts) {
    assertThatThrownBy(call)
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(code.id())
        .hasMessageContainingAll(texts);
  }
}
