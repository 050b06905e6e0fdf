package org.ep4j.verify;

import java.util.Arrays;
import org.ep4j.config.Layout;
import org.ep4j.routing.ExpertPlacement;

/**
 * Rows that a rank receives in a high-throughput dispatch: the token of each row, and the counts.
 * Arrays are as long as the rows, -1 on padding.
 */
final class ReceivePlan {
  private static final int NONE = -1;

  final Layout layout;

  /** Number of rows N, including padding; after {@link #cut} of those that fit. */
  int rows;

  /** Number of rows with a token. */
  final int received;

  final int[] sourceRank;
  final int[] sourceToken;

  /** EXPERT_MAJOR: global expert of each row; FLAT: -1. */
  final int[] expert;

  /** EXPERT_MAJOR: the choice k of the token that the row belongs to; FLAT: -1. */
  final int[] choice;

  final int[] counts;
  final int[] alignedCounts;
  final long[] expertOffsets;
  final long[] rankOffsets;

  private ReceivePlan(WorldRouting world, int rank, Layout layout, int alignment) {
    ExpertPlacement placement = world.placement();
    int local = placement.localExperts(rank);
    this.layout = layout;
    counts = new int[local];
    alignedCounts = new int[local];
    expertOffsets = new long[local + 1];
    rankOffsets = new long[world.ranks() + 1];
    int tokens = 0;
    int pairs = 0;
    for (int s = 0; s < world.ranks(); s++) {
      for (int t = 0; t < world.tokens(s); t++) {
        tokens += world.goesTo(s, t, rank) ? 1 : 0;
        for (int k = 0; k < world.topK(); k++) {
          if (world.destination(s, t, k) == rank) {
            counts[placement.localOf(world.expert(s, t, k))]++;
            pairs++;
          }
        }
      }
      rankOffsets[s + 1] = tokens;
    }
    for (int l = 0; l < local; l++) {
      alignedCounts[l] = (counts[l] + alignment - 1) / alignment * alignment;
      expertOffsets[l + 1] = expertOffsets[l] + alignedCounts[l];
    }
    received = layout == Layout.FLAT ? tokens : pairs;
    rows = layout == Layout.FLAT ? tokens : Math.toIntExact(expertOffsets[local]);
    sourceRank = filled(rows);
    sourceToken = filled(rows);
    expert = filled(rows);
    choice = filled(rows);
    if (layout == Layout.FLAT) {
      placeTokens(world, rank);
    } else {
      placePairs(world, rank);
    }
  }

  static ReceivePlan of(WorldRouting world, int rank, Layout layout, int alignment) {
    return new ReceivePlan(world, rank, layout, alignment);
  }

  /** Leaves out the rows from {@code limit} on. */
  void cut(long limit) {
    rows = (int) Math.min(rows, limit);
  }

  private static int[] filled(int length) {
    int[] values = new int[length];
    Arrays.fill(values, NONE);
    return values;
  }

  private void placeTokens(WorldRouting world, int rank) {
    int row = 0;
    for (int s = 0; s < world.ranks(); s++) {
      for (int t = 0; t < world.tokens(s); t++) {
        if (world.goesTo(s, t, rank)) {
          sourceRank[row] = s;
          sourceToken[row] = t;
          row++;
        }
      }
    }
  }

  private void placePairs(WorldRouting world, int rank) {
    long[] next = expertOffsets.clone();
    for (int s = 0; s < world.ranks(); s++) {
      for (int t = 0; t < world.tokens(s); t++) {
        for (int k = 0; k < world.topK(); k++) {
          if (world.destination(s, t, k) == rank) {
            int e = world.expert(s, t, k);
            int row = (int) next[world.placement().localOf(e)]++;
            sourceRank[row] = s;
            sourceToken[row] = t;
            expert[row] = e;
            choice[row] = k;
          }
        }
      }
    }
  }
}
