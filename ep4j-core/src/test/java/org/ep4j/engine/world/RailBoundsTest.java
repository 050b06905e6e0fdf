package org.ep4j.engine.world;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Against all losses of small worlds, one by one. */
class RailBoundsTest {
  /** Ranks of each node. */
  private static final int[][] WORLDS = {
    {1},
    {4},
    {1, 1},
    {2, 1},
    {1, 3},
    {2, 2},
    {3, 3},
    {4, 2},
    {2, 5},
    {5, 3},
    {4, 4},
    {2, 2, 2},
    {3, 2, 3},
    {2, 4, 3},
    {3, 3, 3},
    {2, 2, 2, 2},
  };

  private static Nodes nodes(int[] sizes) {
    List<String> hosts = new ArrayList<>();
    for (int node = 0; node < sizes.length; node++) {
      hosts.addAll(Collections.nCopies(sizes[node], "host" + node));
    }
    return Nodes.found(hosts.toArray(String[]::new), hosts.toArray(String[]::new));
  }

  /** Whether each node loses at most {@code lostRanks} of its ranks, or all of them. */
  private static boolean isCovered(Nodes nodes, boolean[] gone, int lostRanks) {
    for (int node = 0; node < nodes.count(); node++) {
      int lost = 0;
      for (int rank = nodes.first(node); rank < nodes.end(node); rank++) {
        lost += gone[rank] ? 1 : 0;
      }
      if (lost > lostRanks && lost < nodes.end(node) - nodes.first(node)) {
        return false;
      }
    }
    return true;
  }

  @Test
  void theBoundIsTheLargestValueOfAllLosses() {
    for (int[] world : WORLDS) {
      Nodes nodes = nodes(world);
      for (int lostRanks = 0; lostRanks <= RailBounds.maxLostRanks(nodes); lostRanks++) {
        int[] partners = new int[nodes.ranks()];
        int senders = 0;
        for (int lost = 0; lost < 1 << nodes.ranks(); lost++) {
          boolean[] gone = new boolean[nodes.ranks()];
          for (int rank = 0; rank < gone.length; rank++) {
            gone[rank] = (lost >> rank & 1) != 0;
          }
          if (isCovered(nodes, gone, lostRanks)) {
            Rails left = new Rails(nodes, gone);
            for (int rank = 0; rank < gone.length; rank++) {
              partners[rank] = Math.max(partners[rank], left.partners(rank).length);
              senders = Math.max(senders, left.senders(rank));
            }
          }
        }
        RailBounds bounds = new RailBounds(nodes, lostRanks);
        String shape = nodes + ", " + lostRanks + " lost ranks a node";
        int max = 0;
        for (int rank = 0; rank < partners.length; rank++) {
          assertThat(bounds.partners(rank))
              .as("partners of rank %d, %s", rank, shape)
              .isEqualTo(partners[rank]);
          max = Math.max(max, partners[rank]);
        }
        assertThat(bounds.maxPartners()).as(shape).isEqualTo(max);
        assertThat(bounds.maxSenders()).as(shape).isEqualTo(senders);
      }
    }
  }

  /** What a buffer had before the setting existed. */
  @Test
  void withoutLossesTheyAreTheRailsOfAllRanks() {
    for (int[] world : WORLDS) {
      Nodes nodes = nodes(world);
      Rails all = new Rails(nodes, new boolean[nodes.ranks()]);
      RailBounds bounds = new RailBounds(nodes, 0);
      for (int rank = 0; rank < nodes.ranks(); rank++) {
        assertThat(bounds.partners(rank)).isEqualTo(all.partners(rank).length);
      }
    }
  }

  @Test
  void theSmallestNodeKeepsARank() {
    assertThat(RailBounds.maxLostRanks(nodes(new int[] {4, 2, 3}))).isEqualTo(1);
    assertThat(RailBounds.maxLostRanks(nodes(new int[] {4}))).isEqualTo(3);
    assertThat(RailBounds.maxLostRanks(nodes(new int[] {4, 1}))).isZero();
  }
}
