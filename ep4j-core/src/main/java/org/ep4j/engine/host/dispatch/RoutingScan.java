package org.ep4j.engine.host.dispatch;

import java.util.Arrays;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.HostHandle.RowTarget;
import org.ep4j.engine.world.Nodes;
import org.ep4j.memory.NativeMemory;

/**
 * The one pass over a routing: checks every id, counts tokens per rank and expert, and writes the
 * routes of each token in order of (rank, local expert). Slots are still relative: the number of
 * earlier rows from this rank in the same group.
 */
public final class RoutingScan {
  /** Number of tokens for each rank. */
  public final int[] perRank;

  /** Number of tokens for each expert, by position. */
  final int[] perPosition;

  /** Number of tokens for each node; only {@link #count} fills it. */
  public final int[] perNode;

  /** EXPERT_MAJOR: position of the expert of each route. */
  int[] positions = new int[0];

  private final ExpertTable table;
  private final Nodes nodes;
  private final int experts;

  /** Last token + 1 that chose the expert or went to the rank. */
  private final int[] expertSeen;

  private final int[] rankSeen;

  private final int[] nodeSeen;

  /** The valid choices of a token: position and choice. */
  private final long[] chosen;

  /** Ids of the current routing. */
  private long ids;

  private boolean wideIds;

  public RoutingScan(ExpertTable table, Nodes nodes, int topK) {
    this.table = table;
    this.nodes = nodes;
    experts = table.rankOf.length;
    int ranks = table.first.length - 1;
    perRank = new int[ranks];
    perPosition = new int[experts];
    expertSeen = new int[experts];
    rankSeen = new int[ranks];
    perNode = new int[nodes.count()];
    nodeSeen = new int[nodes.count()];
    chosen = new long[topK];
  }

  private void begin(long ids, boolean wideIds) {
    this.ids = ids;
    this.wideIds = wideIds;
    Arrays.fill(perRank, 0);
    Arrays.fill(perPosition, 0);
    Arrays.fill(expertSeen, 0);
    Arrays.fill(rankSeen, 0);
  }

  /** FLAT: one route for each destination rank of a token. */
  void flat(HostHandle handle, long ids, boolean wideIds) {
    begin(ids, wideIds);
    int tokens = handle.tokens;
    int topK = handle.topK;
    handle.ensureRoutes(tokens, topK);
    int[] start = handle.start;
    long[] routes = handle.routes;
    boolean few = perRank.length <= Long.SIZE;
    int end = 0;
    for (int t = 0; t < tokens; t++) {
      start[t] = end;
      end = few ? flatAmongFew(routes, end, t, topK) : flatAmongMany(routes, end, t, topK);
    }
    start[tokens] = end;
  }

  /** The routes of a token if a set of ranks fits into a word: no branch depends on the routing. */
  private int flatAmongFew(long[] routes, int begin, int token, int topK) {
    long targets = 0;
    for (int k = 0; k < topK; k++) {
      int expert = expert(token, k, topK);
      if (expert >= 0) {
        perPosition[table.positionOf[expert]]++;
        targets |= 1L << table.rankOf[expert];
      }
    }
    int end = begin;
    for (; targets != 0; targets &= targets - 1) {
      int rank = Long.numberOfTrailingZeros(targets);
      routes[end++] = RowTarget.pack(rank, 0, perRank[rank]++);
    }
    return end;
  }

  private int flatAmongMany(long[] routes, int begin, int token, int topK) {
    int end = begin;
    for (int k = 0; k < topK; k++) {
      int expert = expert(token, k, topK);
      if (expert < 0) {
        continue;
      }
      perPosition[table.positionOf[expert]]++;
      int rank = table.rankOf[expert];
      if (rankSeen[rank] != token + 1) {
        rankSeen[rank] = token + 1;
        insert(routes, begin, end++, RowTarget.pack(rank, 0, perRank[rank]++));
      }
    }
    return end;
  }

  /** EXPERT_MAJOR: one route for each expert of a token. */
  void expertMajor(HostHandle handle, long ids, boolean wideIds) {
    begin(ids, wideIds);
    int tokens = handle.tokens;
    int topK = handle.topK;
    handle.ensureRoutes(tokens, topK);
    if (positions.length < handle.routes.length) {
      positions = new int[handle.routes.length];
    }
    int[] start = handle.start;
    int end = 0;
    for (int t = 0; t < tokens; t++) {
      start[t] = end;
      int choices = 0;
      for (int k = 0; k < topK; k++) {
        int expert = expert(t, k, topK);
        if (expert >= 0) {
          insert(chosen, 0, choices++, (long) table.positionOf[expert] << Integer.SIZE | k);
        }
      }
      for (int i = 0; i < choices; i++) {
        int position = (int) (chosen[i] >>> Integer.SIZE);
        positions[end] = position;
        handle.routes[end++] =
            RowTarget.pack(table.rankAt[position], (int) chosen[i], perPosition[position]++);
      }
    }
    start[tokens] = end;
  }

  /**
   * Only counts, and marks the ranks of each token.
   *
   * @param tokenInRank address of bytes [tokens, ranks], all zero
   */
  public void count(int tokens, int topK, long ids, boolean wideIds, long tokenInRank) {
    begin(ids, wideIds);
    int ranks = perRank.length;
    Arrays.fill(perNode, 0);
    Arrays.fill(nodeSeen, 0);
    for (int t = 0; t < tokens; t++) {
      for (int k = 0; k < topK; k++) {
        int expert = expert(t, k, topK);
        if (expert < 0) {
          continue;
        }
        perPosition[table.positionOf[expert]]++;
        int rank = table.rankOf[expert];
        if (rankSeen[rank] != t + 1) {
          rankSeen[rank] = t + 1;
          perRank[rank]++;
          NativeMemory.putByte(tokenInRank + (long) t * ranks + rank, (byte) 1);
        }
        int node = nodes.of(rank);
        if (nodeSeen[node] != t + 1) {
          nodeSeen[node] = t + 1;
          perNode[node]++;
        }
      }
    }
  }

  /** Number of tokens for {@code expert}. */
  public int perExpert(int expert) {
    return perPosition[table.positionOf[expert]];
  }

  /** The expert of a choice, -1 for no expert. */
  private int expert(int token, int k, int topK) {
    long index = (long) token * topK + k;
    long id =
        wideIds ? NativeMemory.getLong(ids + index * 8) : NativeMemory.getInt(ids + index * 4);
    if (id < 0 || id >= experts) {
      if (id == -1) {
        return -1;
      }
      throw Arguments.noSuchExpert(token, k, id, experts);
    }
    int expert = (int) id;
    if (expertSeen[expert] == token + 1) {
      throw Arguments.duplicateExpert(token, k, id);
    }
    expertSeen[expert] = token + 1;
    return expert;
  }

  /** Inserts into the ascending run from {@code begin} to {@code end}. */
  private static void insert(long[] run, int begin, int end, long value) {
    int i = end;
    while (i > begin && run[i - 1] > value) {
      run[i] = run[i - 1];
      i--;
    }
    run[i] = value;
  }
}
