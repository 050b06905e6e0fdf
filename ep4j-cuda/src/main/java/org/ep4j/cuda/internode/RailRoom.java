package org.ep4j.cuda.internode;

import org.ep4j.config.BufferConfig;
import org.ep4j.engine.Limits;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.RailBounds;
import org.ep4j.engine.world.Rails;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * The rails that memory is laid out for, and whether those after a loss have room there. A rank has
 * a ring for each of its partners, and a section of returning rows for each rank of other nodes
 * that sends through it. Where one of several ranks of a node is lost, the others take over its
 * rails.
 */
public final class RailRoom {
  private RailRoom() {}

  /**
   * What the memory of a buffer is laid out for.
   *
   * @throws InvalidArgumentException if a node has too few ranks for the configuration
   */
  public static RailBounds bounds(BufferConfig config, Nodes nodes) {
    int lostRanks = Limits.lostRanks(config);
    int max = RailBounds.maxLostRanks(nodes);
    if (lostRanks > max) {
      throw new InvalidArgumentException(
          ErrorCode.BUFFER_SETTING,
          Limits.LOST_RANKS,
          Integer.toString(lostRanks),
          "at most " + max + ", one less than the ranks of the smallest node",
          "lower it, because nodes that are lost as a whole need no memory");
    }
    return new RailBounds(nodes, lostRanks);
  }

  /**
   * Why the rails among the live ranks do not fit; the same on all ranks.
   *
   * @param room what the memory is laid out for
   * @param gone lost ranks
   * @return empty, if they fit
   */
  static String refuses(Nodes nodes, RailBounds room, boolean[] gone) {
    Rails left = new Rails(nodes, gone);
    int sections = room.maxSenders();
    for (int rank = 0; rank < gone.length; rank++) {
      int partners = left.partners(rank).length;
      if (partners > room.partners(rank)) {
        return lacksMemory(rank, "exchange tokens with", partners, room.partners(rank))
            + setting(nodes, room, gone);
      }
      if (left.senders(rank) > sections) {
        return lacksMemory(rank, "receive tokens of", left.senders(rank), sections)
            + setting(nodes, room, gone);
      }
    }
    return "";
  }

  private static String lacksMemory(int rank, String what, int needed, int room) {
    return "without the lost ranks, rank "
        + rank
        + " would "
        + what
        + " "
        + needed
        + " ranks of other nodes, and high throughput has memory for "
        + room;
  }

  /** The value that would have reserved the memory, if this world allows it. */
  private static String setting(Nodes nodes, RailBounds room, boolean[] gone) {
    int sufficient = lostOfOneNode(nodes, gone);
    boolean allowed = sufficient <= RailBounds.maxLostRanks(nodes);
    return " ("
        + Limits.LOST_RANKS
        + " is "
        + room.lostRanks()
        + (allowed ? "; " + sufficient + " reserves enough)" : ")");
  }

  /** Largest number of lost ranks of a node that has live ones. */
  private static int lostOfOneNode(Nodes nodes, boolean[] gone) {
    int max = 0;
    for (int node = 0; node < nodes.count(); node++) {
      int lost = 0;
      for (int rank = nodes.first(node); rank < nodes.end(node); rank++) {
        lost += gone[rank] ? 1 : 0;
      }
      boolean isLeft = lost < nodes.end(node) - nodes.first(node);
      max = isLeft ? Math.max(max, lost) : max;
    }
    return max;
  }
}
