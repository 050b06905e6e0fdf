package org.ep4j.relocation;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;

/**
 * The slots that receive another expert, and from which slot. All ranks derive the same plan from
 * the same placements. A slot takes its expert from its own rank if possible, else from the replica
 * whose rank has sent the least.
 *
 * @param moves by receiving slot, ascending
 */
record RelocationPlan(List<Move> moves) {
  /**
   * A slot that receives an expert.
   *
   * @param from physical expert that has the weights now
   * @param to physical expert that receives them
   * @param source rank of {@code from}
   * @param target rank of {@code to}
   * @param place number of the move among those to {@code target}
   */
  record Move(int from, int to, int source, int target, int place) {
    boolean isLocal() {
      return source == target;
    }
  }

  static RelocationPlan of(ReplicatedPlacement current, ReplicatedPlacement next) {
    ExpertPlacement slots = current.placement();
    int[] sent = new int[slots.ranks()];
    int[] received = new int[slots.ranks()];
    List<Move> moves = new ArrayList<>();
    for (int to = 0; to < slots.experts(); to++) {
      int expert = next.logicalOf(to);
      if (current.logicalOf(to) == expert) {
        continue;
      }
      int target = slots.rankOf(to);
      int from = source(current, expert, target, sent);
      int source = slots.rankOf(from);
      sent[source] += source == target ? 0 : 1;
      moves.add(new Move(from, to, source, target, received[target]++));
    }
    return new RelocationPlan(List.copyOf(moves));
  }

  private static int source(ReplicatedPlacement current, int expert, int target, int[] sent) {
    int best = current.replica(expert, 0);
    for (int n = 0; n < current.replicas(expert); n++) {
      int slot = current.replica(expert, n);
      int rank = current.placement().rankOf(slot);
      if (rank == target) {
        return slot;
      }
      if (sent[rank] < sent[current.placement().rankOf(best)]) {
        best = slot;
      }
    }
    return best;
  }

  /** Number of slots of {@code rank} that receive. */
  long received(int rank) {
    return moves.stream().filter(m -> m.target == rank).count();
  }

  /** Moves from another rank to {@code rank}. */
  List<Move> incoming(int rank) {
    return moves.stream().filter(m -> m.target == rank && !m.isLocal()).toList();
  }

  /** Moves from {@code rank} to another rank. */
  List<Move> outgoing(int rank) {
    return moves.stream().filter(m -> m.source == rank && !m.isLocal()).toList();
  }

  /** Moves between slots of {@code rank}. */
  List<Move> local(int rank) {
    return moves.stream().filter(m -> m.source == rank && m.isLocal()).toList();
  }
}
