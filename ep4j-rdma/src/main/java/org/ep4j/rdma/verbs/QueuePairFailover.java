package org.ep4j.rdma.verbs;

import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.ep4j.error.ErrorCode;
import org.ep4j.observe.PathLossEvent;
import org.ep4j.rdma.verbs.bindings.VerbsControlLayout;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.WireException;
import org.jspecify.annotations.Nullable;

/**
 * Failover of a progress context when a queue pair is lost while another one to the same peer
 * works: the lanes continue over the other queue pair. No work is delivered twice or torn.
 *
 * <p><b>Stop.</b> Each end stops its queue pair, and waits until the device has returned every
 * request and every receive. From then on nothing arrives through it, and the number of handled
 * receives is final. An end that has not detected the loss receives the message below.
 *
 * <p><b>Announce.</b> Each end sends this number to the other ({@link VerbsControlLayout#MOVED})
 * over a working queue pair, and again over another one if that one is lost before its peer has
 * handled the message. A receiver ignores a repeated message.
 *
 * <p><b>Continue.</b> An end that has stopped and received the number of the peer knows the work
 * that took effect: requests up to the last one whose receive was handled, and those that the
 * device completed. The new queue pairs of the lanes post the rest again, complete and in order.
 * Parts of it may already be written; they are not announced, and the same bytes are written again,
 * because {@code flush()} has not released them. The two directions are independent, and may choose
 * different queue pairs.
 *
 * <p>Lanes fail, as without failover, if no queue pair to the peer works, if the device keeps
 * requests for longer than {@link #TIMEOUT}, or if one end has failed its lanes ({@link
 * VerbsControlLayout#GONE}, or a notice over the group), for example because a put targets a closed
 * region.
 */
final class QueuePairFailover {
  private static final System.Logger LOG = System.getLogger("org.ep4j.rdma");
  private static final long TIMEOUT = TimeUnit.SECONDS.toNanos(5);
  private static final long UNKNOWN = -1;

  private final VerbsWire wire;
  private final QueuePair[] pairs;
  private final int perPeer;
  private final List<Failover> failovers = new ArrayList<>();
  // By index of the queue pair.
  private final long[] handledThere;
  private final boolean[] gone;
  private final boolean[] announceFailure;

  /** State of a lost queue pair. */
  private static final class Failover {
    final QueuePair pair;
    final long end = System.nanoTime() + TIMEOUT;
    boolean drained;
    boolean settled;
    @Nullable QueuePair announcer;

    Failover(QueuePair pair) {
      this.pair = pair;
    }
  }

  /** Failovers of a progress context; its queue pairs to each peer are consecutive. */
  QueuePairFailover(VerbsWire wire, QueuePair[] pairs, int perPeer) {
    this.wire = wire;
    this.pairs = pairs;
    this.perPeer = perPeer;
    handledThere = new long[pairs.length];
    Arrays.fill(handledThere, UNKNOWN);
    gone = new boolean[pairs.length];
    announceFailure = new boolean[pairs.length];
  }

  /**
   * Starts the failover of a lost queue pair.
   *
   * @return whether a failover is possible; if not, its lanes fail
   */
  boolean begin(QueuePair pair) {
    if (pair.broken() != Cause.LOST || gone[pair.index()] || working(pair) == null) {
      return false;
    }
    for (Failover failover : failovers) {
      if (failover.pair == pair) {
        return true;
      }
    }
    try {
      pair.stop();
    } catch (WireException e) {
      // Without a stop its counts never become final, and the peer must not wait for them.
      gone[pair.index()] = true;
      return false;
    }
    failovers.add(new Failover(pair));
    return true;
  }

  /** A queue pair and its lanes have failed: notifies the peer, which must not wait for it. */
  void ended(QueuePair pair) {
    announceFailure[pair.index()] = pair.broken() == Cause.PROTOCOL || gone[pair.index()];
  }

  /**
   * Handles a message of the peer about one of the queue pairs between the two ranks.
   *
   * @return whether this queue pair exists
   */
  boolean received(QueuePair from, int kind, int number, long value) {
    if (number < 0 || number >= perPeer) {
      return false;
    }
    QueuePair pair = pairs[from.index() - from.index() % perPeer + number];
    if (kind == VerbsControlLayout.GONE) {
      gone[pair.index()] = true;
      pair.lose(Cause.LOST, "the peer has failed its lanes");
      return true;
    }
    if (handledThere[pair.index()] == UNKNOWN) {
      handledThere[pair.index()] = value;
    }
    if (!pair.works() && !pair.ending()) {
      // Its lanes failed here, unless it was settled.
      announceFailure[pair.index()] |= !settled(pair);
    }
    pair.lose(Cause.LOST, "the peer lost it");
    return true;
  }

  /** The peer has reported over the group that a lane of a queue pair has failed there. */
  void reported(QueuePair pair, String report) {
    gone[pair.index()] = true;
    pair.lose(Cause.LOST, report);
  }

  private boolean settled(QueuePair pair) {
    for (Failover failover : failovers) {
      if (failover.pair == pair) {
        return failover.settled;
      }
    }
    return false;
  }

  /**
   * Advances all failovers; cheap without any.
   *
   * @return whether a step was taken
   */
  boolean poll() {
    boolean done = false;
    for (int i = 0; i < pairs.length; i++) {
      if (announceFailure[i]) {
        QueuePair other = working(pairs[i]);
        boolean announced =
            other == null || other.announce(VerbsControlLayout.GONE, i % perPeer, 0);
        announceFailure[i] = !announced;
        done |= announced;
      }
    }
    for (int i = 0; i < failovers.size(); i++) {
      done |= advance(failovers.get(i));
    }
    return done;
  }

  private boolean advance(Failover failover) {
    QueuePair pair = failover.pair;
    if (failover.settled && (failover.announcer == null || failover.announcer.works())) {
      return false;
    }
    QueuePair other = working(pair);
    if (other == null || gone[pair.index()]) {
      return failover.settled ? forget(failover) : fail(failover);
    }
    if (!failover.drained) {
      failover.drained = pair.drained();
      return failover.drained || (System.nanoTime() - failover.end > 0 && fail(failover));
    }
    if (failover.announcer == null || !failover.announcer.works()) {
      int number = pair.index() % perPeer;
      if (other.announce(VerbsControlLayout.MOVED, number, pair.handledHere())) {
        failover.announcer = other;
        return true;
      }
      return false;
    }
    return handledThere[pair.index()] != UNKNOWN && settle(failover);
  }

  private boolean settle(Failover failover) {
    QueuePair pair = failover.pair;
    VerbsLane[] lanes = pair.settle(handledThere[pair.index()]);
    if (lanes == null) {
      return fail(failover);
    }
    failover.settled = true;
    int moved = 0;
    String paths = "";
    QueuePair to = working(pair);
    for (VerbsLane lane : lanes) {
      if (to != null && to.adopt(lane)) {
        moved++;
        paths = to.port();
        to = next(to);
      } else if (lane.failure() == null) {
        lane.fail(
            Cause.LOST,
            ErrorCode.VERBS_QUEUE_PAIR_LOST.message(
                "port %s: %s; its unacknowledged work is lost"
                    .formatted(pair.port(), pair.reason())));
        wire.failed(1);
      }
    }
    PathLossEvent.record(
        wire.rank(), pair.peer(), pair.port(), paths, moved, String.valueOf(pair.reason()));
    LOG.log(
        Level.WARNING,
        ErrorCode.VERBS_QUEUE_PAIR_LOST.message(
            "rank %d lost a queue pair of port %s to rank %d (%s): its %d lanes continue over port %s"
                .formatted(wire.rank(), pair.port(), pair.peer(), pair.reason(), moved, paths)));
    return true;
  }

  /** No failover is possible: the lanes fail. */
  private boolean fail(Failover failover) {
    wire.failed(failover.pair.end(wire.status(failover.pair.peer())));
    announceFailure[failover.pair.index()] = true;
    return forget(failover);
  }

  private boolean forget(Failover failover) {
    failovers.remove(failover);
    return true;
  }

  /** A working queue pair to the same peer, if possible on another port; null if none works. */
  private @Nullable QueuePair working(QueuePair lost) {
    int first = lost.index() - lost.index() % perPeer;
    QueuePair found = null;
    for (int i = first; i < first + perPeer; i++) {
      if (pairs[i].works() && (found == null || !pairs[i].port().equals(lost.port()))) {
        found = pairs[i];
      }
    }
    return found;
  }

  /** The next working queue pair, for the next lane. */
  private QueuePair next(QueuePair pair) {
    int first = pair.index() - pair.index() % perPeer;
    for (int step = 1; step < perPeer; step++) {
      QueuePair other = pairs[first + (pair.index() - first + step) % perPeer];
      if (other.works() && other.port().equals(pair.port())) {
        return other;
      }
    }
    return pair;
  }
}
