package org.ep4j.rdma.verbs;

import java.util.concurrent.TimeUnit;
import org.ep4j.group.Group;
import org.ep4j.wire.LaneFailure.Cause;

/**
 * What one thread drives: queue pairs to every peer, and a completion queue for each port. Work
 * moves in the order: post what waits, take completions, look what peers have handled; and only
 * when there is nothing of that, tell peers what was handled here, and see who is gone.
 */
final class VerbsProgressContext {
  /** Idle polls between looks at the clock. */
  private static final int CLOCK = 1024;

  /** A queue pair that was silent for so long is asked whether its peer is still there. */
  private static final long SILENCE = TimeUnit.SECONDS.toNanos(1);

  private final VerbsWire wire;
  private final Group group;
  private final CompletionQueue[] completions;
  private final QueuePair[] pairs;
  private final QueuePairFailover failover;
  private int looked;
  private int idle;
  private long probed = System.nanoTime();

  /** A strand; of its queue pairs, {@code perPeer} go to each peer. */
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

  /** Takes all completions there are. */
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
    }
    return done;
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

  /** What is wrong when a request does not succeed. */
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

  /** There was nothing to do: time for what can wait. */
  private int rest() {
    int done = 0;
    for (QueuePair pair : pairs) {
      pair.renew(1);
      done += pair.send();
    }
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

  /** Asks the group after a peer: one that only waits would not notice a death. */
  private int look(QueuePair pair) {
    if (!pair.works() || group.isAlive(pair.peer())) {
      return 0;
    }
    // What it sent before it went has been reported: that first.
    int done = take();
    if (done == 0) {
      pair.lose(Cause.DEPARTED, String.valueOf(group.deathReport(pair.peer())));
      done = 1;
    }
    return done;
  }

  /** Takes leave of all peers; whether they have heard it. */
  boolean sendGoodbye() {
    take();
    boolean said = true;
    for (QueuePair pair : pairs) {
      said &= pair.sendGoodbye();
    }
    return said;
  }

  /** Goes round a lost queue pair, or lets its lanes fail. */
  private int end(QueuePair pair) {
    // Completions that came before the error count.
    int done = take();
    if (failover.begin(pair)) {
      return done;
    }
    wire.failed(pair.end(wire.status(pair.peer())));
    failover.ended(pair);
    return 1;
  }
}
