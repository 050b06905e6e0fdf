package org.ep4j.cuda.internode;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.stream.IntStream;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.Rails;
import org.ep4j.routing.ExpertPlacement;
import org.junit.jupiter.api.Test;

class RailRoomTest {
  /** Nodes of {@code perNode} ranks; the last one may have fewer. */
  private static Nodes nodes(int ranks, int perNode) {
    return Nodes.of(
        BufferConfig.builder()
            .hidden(128)
            .topK(1)
            .placement(ExpertPlacement.blocks(ranks, ranks))
            .lowLatency(1)
            .ranksPerNode(perNode)
            .build());
  }

  private static boolean[] without(int ranks, int... lost) {
    boolean[] gone = new boolean[ranks];
    IntStream.of(lost).forEach(rank -> gone[rank] = true);
    return gone;
  }

  @Test
  void aWholeNodeLeavesRoom() {
    assertThat(RailRoom.refuses(nodes(6, 2), without(6, 2, 3))).isEmpty();
  }

  @Test
  void aRankOfALargerNodeLeavesRoom() {
    for (int lost = 0; lost < 3; lost++) {
      assertThat(RailRoom.refuses(nodes(3, 2), without(3, lost))).isEmpty();
    }
  }

  @Test
  void aRankThatTakesOverAnotherRailLacksMemory() {
    assertThat(RailRoom.refuses(nodes(4, 2), without(4, 1)))
        .contains("rank 0 would exchange tokens with 2 ranks")
        .endsWith("memory for 1");
  }

  /** Rings and sections of returning rows are laid out for the rails of all ranks. */
  @Test
  void whatIsAcceptedFitsIntoTheMemoryOfAllRanks() {
    int[][] worlds = {{3, 2}, {4, 2}, {5, 2}, {5, 3}, {6, 4}, {7, 3}};
    for (int[] world : worlds) {
      int ranks = world[0];
      Nodes nodes = nodes(ranks, world[1]);
      Rails all = new Rails(nodes, new boolean[ranks]);
      for (int lost = 0; lost < 1 << ranks; lost++) {
        int bits = lost;
        boolean[] gone =
            without(ranks, IntStream.range(0, ranks).filter(r -> (bits >> r & 1) != 0).toArray());
        Rails left = new Rails(nodes, gone);
        boolean fits =
            IntStream.range(0, ranks)
                .allMatch(
                    r ->
                        left.partners(r).length <= all.partners(r).length
                            && sent(nodes, left, gone, r) <= largest(nodes, all, ranks));
        assertThat(RailRoom.refuses(nodes, gone).isEmpty()).isEqualTo(fits);
      }
    }
  }

  private static int largest(Nodes nodes, Rails all, int ranks) {
    boolean[] none = new boolean[ranks];
    return IntStream.range(0, ranks).map(r -> sent(nodes, all, none, r)).max().orElseThrow();
  }

  /** Live ranks of other nodes whose rail is this rank, counted one by one. */
  private static int sent(Nodes nodes, Rails rails, boolean[] gone, int rank) {
    return (int)
        IntStream.range(0, gone.length)
            .filter(
                other ->
                    !gone[other]
                        && !gone[rank]
                        && !nodes.together(other, rank)
                        && rails.rail(other, nodes.of(rank)) == rank)
            .count();
  }
}
