package org.ep4j.cuda.far;

import java.time.Duration;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.Wire;
import org.jspecify.annotations.Nullable;

/**
 * Finds out that nothing is under way on a wire any more, so that what it writes into can be
 * cleared: each rank gives every lane one last add, and waits until those of all others have come.
 * An add takes effect after all that its lane was given before. Lanes to ranks that are gone bring
 * no last word: they have to fail, behind which nothing comes on a wire that {@link Wire#severs}.
 *
 * <p>On all ranks that are left at once, each in a thread that drives all strands meanwhile; nobody
 * gives the wire work before all have ended. They may ask several times, as when a rank dies
 * meanwhile: each time has a number that is the same on all, and higher than any before.
 *
 * <p>By rank a counter of last words: only that rank lets it grow, to the number of lanes times
 * that of the time, whatever it had told before it gave up. So it is never cleared, and says how
 * much of this time is missing, also where ranks gave up at different moments.
 */
final class InternodeQuiesce {
  private final Wire wire;
  private final int counter;
  private final int lanes;

  /** By peer and lane: the sum of the last words that it was given. */
  private final long[] sent;

  /**
   * @param counter of the last words of rank 0; those of the others follow
   */
  InternodeQuiesce(Wire wire, int counter) {
    this.wire = wire;
    this.counter = counter;
    lanes = wire.config().lanes();
    sent = new long[wire.size() * lanes];
  }

  /**
   * Waits. Empty, or why nobody can say that the wire is quiet.
   *
   * @param gone ranks that do not count, the same on all that do
   * @param time the number of this time
   */
  String await(boolean[] gone, long time, Duration timeout) {
    long deadline = System.nanoTime() + timeout.toNanos();
    boolean[] counts = new boolean[wire.size()];
    for (int peer = 0; peer < counts.length; peer++) {
      counts[peer] = peer != wire.rank() && !gone[peer];
    }
    boolean progressing = true;
    for (int peer = 0; progressing && peer < counts.length; peer++) {
      for (int lane = 0; progressing && counts[peer] && lane < lanes; lane++) {
        progressing = sendLastWord(peer, lane, time, counts, deadline);
      }
    }
    while (progressing && !isQuiescent(gone, counts, time)) {
      progressing = progress(counts, deadline);
    }
    return progressing ? "" : problem(gone, counts, time);
  }

  /** False if a lane to a rank that counts has failed, or this one takes nothing in time. */
  private boolean sendLastWord(int peer, int lane, long time, boolean[] counts, long deadline) {
    int at = peer * lanes + lane;
    while (sent[at] < time) {
      long result = wire.lane(peer, lane).add(counter + wire.rank(), time - sent[at]);
      if (result == Lane.FAILED) {
        return false;
      }
      if (result != Lane.BACK_PRESSURED) {
        sent[at] = time;
      } else if (!progress(counts, deadline)) {
        return false;
      }
    }
    return true;
  }

  private boolean isQuiescent(boolean[] gone, boolean[] counts, long time) {
    boolean quiesce = true;
    for (int peer = 0; peer < counts.length; peer++) {
      quiesce &= !counts[peer] || wire.counters().get(counter + peer) >= lanes * time;
      for (int lane = 0; peer != wire.rank() && lane < lanes; lane++) {
        Lane its = wire.lane(peer, lane);
        quiesce &= gone[peer] ? its.failure() != null : its.flush();
      }
    }
    return quiesce;
  }

  /** Moves everything along; false once that is vain. */
  private boolean progress(boolean[] counts, long deadline) {
    int done = 0;
    for (int strand = 0; strand < wire.config().progressContexts(); strand++) {
      done += wire.poll(strand);
    }
    if (done == 0) {
      Thread.onSpinWait();
    }
    return (wire.failedLanes() == 0 || failed(counts) == null) && System.nanoTime() - deadline < 0;
  }

  /** How a lane to a rank that counts has failed; null if none has. */
  private @Nullable LaneFailure failed(boolean[] counts) {
    for (int peer = 0; peer < counts.length; peer++) {
      for (int lane = 0; counts[peer] && lane < lanes; lane++) {
        LaneFailure failure = wire.lane(peer, lane).failure();
        if (failure != null) {
          return failure;
        }
      }
    }
    return null;
  }

  private String problem(boolean[] gone, boolean[] counts, long time) {
    LaneFailure failure = failed(counts);
    if (failure != null) {
      return "the wire to rank " + failure.peer() + " has failed: " + failure;
    }
    for (int peer = 0; peer < counts.length; peer++) {
      long missing = lanes * time - wire.counters().get(counter + peer);
      if (counts[peer] && missing > 0) {
        return "%d of %d last words of rank %d have not come in time"
            .formatted(missing, lanes * time, peer);
      }
      for (int lane = 0; gone[peer] && lane < lanes; lane++) {
        if (wire.lane(peer, lane).failure() == null) {
          return "lane %d to rank %d, which is gone, has not ended in time".formatted(lane, peer);
        }
      }
    }
    return "what lanes were given has not left in time";
  }
}
