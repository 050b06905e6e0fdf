package org.ep4j.engine.host.internode;

/**
 * Chooses the lane of an operation's low-latency rows to a peer: operations take all lanes in turn,
 * dispatches and combines alike. Used by one thread at a time.
 *
 * <p>Lanes are independent, and operations of the same parity write the same memory of the peer. A
 * peer that is masked, or masks this rank, may take the rows of one late or not at all. So an
 * operation keeps the lane of the last one of its parity until the work of that one has taken
 * effect: later rows never land before earlier ones.
 */
final class RowLanes {
  private final InternodeLanes lanes;
  private final Choice[][] choices;

  /** The lane of the last operation of a parity to a peer. */
  private static final class Choice {
    long operation;
    int lane;

    /** Work that the lane had accepted with the operation. */
    long end;
  }

  RowLanes(InternodeLanes lanes, int ranks) {
    this.lanes = lanes;
    choices = new Choice[2][ranks];
    for (Choice[] ofParity : choices) {
      for (int peer = 0; peer < ranks; peer++) {
        ofParity[peer] = new Choice();
        // Peers begin with different lanes, which may be on different ports.
        ofParity[peer].lane = peer % lanes.count();
      }
    }
  }

  /** Index of the lane of operation {@code number} to {@code peer}. */
  int of(int peer, long number) {
    Choice choice = choices[(int) (number & 1)][peer];
    if (choice.operation != number) {
      choice.operation = number;
      if (lanes.reach(peer) && lanes.get(peer, choice.lane).delivered() >= choice.end) {
        choice.lane = (choice.lane + 1) % lanes.count();
      }
    }
    return choice.lane;
  }

  /** All rows of operation {@code number} have been handed to the lane. */
  void sent(int peer, long number) {
    Choice choice = choices[(int) (number & 1)][peer];
    if (lanes.reach(peer)) {
      choice.end = lanes.get(peer, choice.lane).accepted();
    }
  }
}
