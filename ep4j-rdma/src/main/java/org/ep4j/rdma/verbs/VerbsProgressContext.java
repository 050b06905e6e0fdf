package org.ep4j.rdma.verbs;

import java.util.concurrent.TimeUnit;
import org.ep4j.group.Group;
import org.ep4j.rdma.verbs.bindings.Verbs;
import org.ep4j.rdma.verbs.bindings.VerbsConstants;
import org.ep4j.wire.LaneFailure.Cause;

/**
 * Queue pairs to every peer and a completion queue per port, driven by one thread. A poll posts
 * waiting work, processes completions, and reads the counts of the peers. Only without such work,
 * it announces handled receives and checks the liveness of peers.
 */
final class VerbsProgressContext {
  /** Idle polls between reads of the clock. */
  private static final int CLOCK = 1024;

  /** Silence after which the peer of a queue pair is probed. */
  private static final long SILENCE = TimeUnit.SECONDS.toNanos(1);

  private final VerbsWire wire;
  private final Group group;
  private final CompletionQueue[] completions;
  private final QueuePair[] pairs;
  private final QueuePairFailover failover;
  private int looked;

  /** Notices of peers that have been looked at. */
  private int reports;

  private int idle;
  private long probed = System.nanoTime();

  /** A progress context with {@code perPeer} queue pairs to each peer. */
  VerbsProgressContext(
      VerbsWire wire, Group group, CompletionQueue[] completions, QueuePair[] pairs, int perPeer) {
    this.wire = wire;
    failover = new QueuePairFailover(wire, pairs, perPeer);
    for (QueuePair pair : pairs) {
      pair.report(failover);
    }
    this.group = group;
    this.completions = completions;
    this.pairs = pairs;
  }

  QueuePair[] pairs() {
    return pairs;
  }

  int poll() {
    int done = 0;
    for (QueuePair pair : pairs) {
      done += pair.send();
    }
    done += take();
    for (QueuePair pair : pairs) {
      done += pair.progress();
      pair.renew(pair.worthTelling());
    }
    if (done == 0) {
      done = rest();
    }
    for (QueuePair pair : pairs) {
      if (pair.ending()) {
        done += end(pair);
      }
    }
    return failover.poll() ? done + 1 : done;
  }

  /** Processes all completions. */
  private int take() {
    int done = 0;
    for (CompletionQueue queue : completions) {
      int count;
      do {
        count = queue.poll();
        for (int i = 0; i < count; i++) {
          dispatch(queue, i);
        }
        done += Math.max(count, 0);
      } while (count == CompletionQueue.MAX);
      if (count < 0) {
        lose(queue);
      }
    }
    return done;
  }

  /** Loses the queue pairs of a queue that no longer reports what they complete. */
  private void lose(CompletionQueue queue) {
    for (QueuePair pair : pairs) {
      if (pair.completesIn(queue)) {
        pair.lose(Cause.LOST, "ibv_poll_cq failed");
      }
    }
  }

  private void dispatch(CompletionQueue queue, int completion) {
    long id = queue.id(completion);
    QueuePair pair = pairs[RequestId.pair(id)];
    int status = queue.status(completion);
    if (status != VerbsConstants.IBV_WC_SUCCESS) {
      pair.returned(id, cause(status), Verbs.statusText(status));
    } else if (RequestId.isReceive(id)) {
      pair.received(queue.opcode(completion), queue.immediate(completion));
    } else {
      pair.sent(id);
    }
  }

  /** Cause of a failed request. */
  private static Cause cause(int status) {
    return switch (status) {
      case VerbsConstants.IBV_WC_LOC_QP_OP_ERR,
          VerbsConstants.IBV_WC_WR_FLUSH_ERR,
          VerbsConstants.IBV_WC_RETRY_EXC_ERR,
          VerbsConstants.IBV_WC_RNR_RETRY_EXC_ERR ->
          Cause.LOST;
      default -> Cause.PROTOCOL;
    };
  }

  /** Low-priority work of an idle poll. */
  private int rest() {
    int done = 0;
    for (QueuePair pair : pairs) {
      pair.renew(1);
      done += pair.send();
    }
    heedReports();
    if (done == 0 && pairs.length > 0) {
      looked = looked + 1 >= pairs.length ? 0 : looked + 1;
      done = look(pairs[looked]);
    }
    if (done == 0 && ++idle % CLOCK == 0 && System.nanoTime() - probed > SILENCE) {
      probed = System.nanoTime();
      for (QueuePair pair : pairs) {
        pair.probe();
      }
    }
    return done;
  }

  /** Loses the queue pairs whose lanes a peer has failed at its end. */
  private void heedReports() {
    int now = wire.reports();
    if (now == reports) {
      return;
    }
    reports = now;
    for (QueuePair pair : pairs) {
      for (VerbsLane lane : pair.lanes()) {
        String report = wire.reported(pair.peer(), lane.index());
        if (report != null) {
          failover.reported(pair, report);
        }
      }
    }
  }

  /** Checks the liveness of a peer: a rank that only waits would not detect its death. */
  private int look(QueuePair pair) {
    if (!pair.works() || group.isAlive(pair.peer())) {
      return 0;
    }
    // First process the completions of its earlier messages.
    int done = take();
    if (done == 0) {
      pair.lose(Cause.DEPARTED, String.valueOf(group.deathReport(pair.peer())));
      done = 1;
    }
    return done;
  }

  /** Sends goodbye to all peers; whether all have received it. */
  boolean sendGoodbye() {
    take();
    boolean said = true;
    for (QueuePair pair : pairs) {
      said &= pair.sendGoodbye();
    }
    return said;
  }

  /** Starts the failover of a lost queue pair, or fails its lanes. */
  private int end(QueuePair pair) {
    // Completions before the error count.
    int done = take();
    if (failover.begin(pair)) {
      return done;
    }
    wire.failed(pair.end(wire.status(pair.peer())));
    failover.ended(pair);
    return 1;
  }
}
