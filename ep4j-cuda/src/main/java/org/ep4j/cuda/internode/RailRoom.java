package org.ep4j.cuda.internode;

import java.util.stream.IntStream;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.Rails;

/**
 * Whether the memory of rails has room after a loss. It is laid out for the rails of all ranks: a
 * rank has a ring for each of its partners, and a section of returning rows for each rank of other
 * nodes that sends through it. Where one of several ranks of a node is lost, the others take over
 * its rails.
 */
final class RailRoom {
  private RailRoom() {}

  /**
   * Why the rails among the live ranks do not fit; the same on all ranks.
   *
   * @param gone lost ranks
   * @return empty, if they fit
   */
  static String refuses(Nodes nodes, boolean[] gone) {
    Rails all = new Rails(nodes, new boolean[gone.length]);
    Rails left = new Rails(nodes, gone);
    int sections = IntStream.range(0, gone.length).map(all::senders).max().orElse(0);
    for (int rank = 0; rank < gone.length; rank++) {
      int partners = left.partners(rank).length;
      if (partners > all.partners(rank).length) {
        return lacksMemory(rank, partners, all.partners(rank).length, "exchange tokens with");
      }
      if (left.senders(rank) > sections) {
        return lacksMemory(rank, left.senders(rank), sections, "receive tokens of");
      }
    }
    return "";
  }

  private static String lacksMemory(int rank, int needed, int room, String what) {
    return "without the lost ranks, rank "
        + rank
        + " would "
        + what
        + " "
        + needed
        + " ranks of other nodes, and high throughput has memory for "
        + room;
  }
}
