package org.ep4j.cuda.internode;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.stream.IntStream;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.RailBounds;
import org.ep4j.engine.world.Rails;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;
import org.junit.jupiter.api.Test;

class RailRoomTest {
  /** Nodes of {@code perNode} ranks; the last one may have fewer. */
  private static Nodes nodes(int ranks, int perNode) {
    return Nodes.of(config(ranks, perNode, 0));
  }

  private static BufferConfig config(int ranks, int perNode, int lostRanks) {
    return BufferConfig.builder()
        .hidden(128)
        .topK(1)
        .placement(ExpertPlacement.blocks(ranks, ranks))
        .highThroughput(HighThroughputConfig.builder().maxTokens(1).lostRanks(lostRanks).build())
        .ranksPerNode(perNode)
        .build();
  }

  private static boolean[] without(int ranks, int... lost) {
    boolean[] gone = new boolean[ranks];
    IntStream.of(lost).forEach(rank -> gone[rank] = true);
    return gone;
  }

  @Test
  void aWholeNodeLeavesRoom() {
    assertThat(refuses(nodes(6, 2), 0, without(6, 2, 3))).isEmpty();
  }

  @Test
  void aRankOfALargerNodeLeavesRoom() {
    for (int lost = 0; lost < 3; lost++) {
      assertThat(refuses(nodes(3, 2), 0, without(3, lost))).isEmpty();
    }
  }

  @Test
  void aRankThatTakesOverAnotherRailLacksMemory() {
    assertThat(refuses(nodes(4, 2), 0, without(4, 1)))
        .contains("rank 0 would exchange tokens with 2 ranks")
        .endsWith("memory for 1 (highThroughput.lostRanks is 0; 1 reserves enough)");
    assertThat(refuses(nodes(4, 2), 1, without(4, 1))).isEmpty();
  }

  /** The largest number of one node counts; a node that is lost as a whole needs none. */
  @Test
  void theRefusalNamesTheNumberThatReservesEnough() {
    boolean[] gone = without(12, 0, 4, 5, 6, 8, 9, 10, 11);
    assertThat(refuses(nodes(12, 4), 1, gone)).endsWith("lostRanks is 1; 3 reserves enough)");
    assertThat(refuses(nodes(12, 4), 3, gone)).isEmpty();
  }

  /** A node of fewer ranks does not allow the number. */
  @Test
  void theRefusalNamesNoNumberThatOpeningRefuses() {
    assertThat(refuses(nodes(6, 4), 1, without(6, 0, 1, 2)))
        .endsWith("(highThroughput.lostRanks is 1)");
  }

  @Test
  void aNumberThatLeavesANodeNoRankIsRefused() {
    assertThat(RailRoom.bounds(config(5, 3, 1), nodes(5, 3)).lostRanks()).isEqualTo(1);
    assertThatThrownBy(() -> RailRoom.bounds(config(5, 3, 2), nodes(5, 3)))
        .isInstanceOfSatisfying(
            InvalidArgumentException.class,
            e -> {
              assertThat(e.errorCode()).isEqualTo(ErrorCode.BUFFER_SETTING);
              assertThat(e.argument()).isEqualTo("highThroughput.lostRanks");
            })
        .hasMessageContaining("at most 1");
  }

  private static String refuses(Nodes nodes, int lostRanks, boolean[] gone) {
    return RailRoom.refuses(nodes, new RailBounds(nodes, lostRanks), gone);
  }

  /** Without the setting, rings and sections of returning rows are those of all ranks. */
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
        assertThat(refuses(nodes, 0, gone).isEmpty()).isEqualTo(fits);
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
                        && !nodes.together(rank, other)
                        && rails.rail(other, nodes.of(rank)) == rank)
            .count();
  }
}
