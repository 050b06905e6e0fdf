package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.far.InternodeConnection;
import org.ep4j.engine.Nodes;
import org.ep4j.engine.SurvivorAgreement;
import org.ep4j.group.Group;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * Getting out of a broken operation, and taking in ranks that come back: the ranks that are alive
 * find each other through the group, end what their GPUs still do, agree on who is gone, see to it
 * that nobody who is gone writes to them any more, and clear their words before any of them begins
 * anew, with numbers that none has used. One that comes back has words as clear as these.
 *
 * <p>Between nodes what has been sent may still be under way when kernels have ended, so it is
 * awaited before anything is cleared, and lanes to nodes that are gone have to end. Wire and memory
 * stay, and all addresses with them. Who evicts reaches memory of its own node; where that of
 * another is gone, no kernel has a way from there to here but the wire.
 */
final class Recovery {
  private static final int EPOCH = 0;
  private static final int LOW_LATENCY = 1;
  private static final int QUIESCE_ROUNDS = 2;

  /** Words that the ranks agree on. */
  static final int AGREED_WORDS = 3;

  /** More than a rank that is gone can have been ahead of those that are left. */
  private static final long LEAP = 8;

  /**
   * How much later than another a rank may be that has evicted ranks, those replaced and those
   * gone.
   */
  private static final Duration FENCE_SKEW = StaleRankFence.MAX_DURATION.multipliedBy(2);

  private static final String REMEDY =
      "close the buffer on all live ranks and open another among them";

  private final CudaContext context;
  private final @Nullable LowLatency lowLatency;
  private final @Nullable LowLatencyRegion part;

  /**
   * @param part that the low-latency operations use; null if there are none
   */
  Recovery(CudaContext context, @Nullable LowLatency lowLatency, @Nullable LowLatencyRegion part) {
    this.context = context;
    this.lowLatency = lowLatency;
    this.part = part;
  }

  /** Collective among the live ranks; returns their group, owned by the caller. */
  Group reset() {
    SurvivorAgreement.requireNoReplacement(context.members);
    quiesce();
    context.completion.requireNotFenced("reset");
    Duration timeout = context.config.timeout();
    try (SurvivorAgreement reunion = SurvivorAgreement.ofSurvivors(context.group, context.members, timeout, words())) {
      quiesceInternode(reunion);
      return beginAnew(reunion);
    }
  }

  /** Kernels of all ranks have ended; what they have sent to other nodes may still be under way. */
  private void quiesceInternode(SurvivorAgreement reunion) {
    InternodeConnection internode = context.internode;
    if (internode == null) {
      return;
    }
    boolean[] gone = reunion.gone();
    String refused = internode.refusesLoss(gone);
    if (!refused.isEmpty()) {
      // All ranks come to the same.
      throw new UnsupportedOperationException("reset: " + refused + ": " + REMEDY);
    }
    boolean done = false;
    try {
      String problem =
          internode.quiesce(gone, reunion.highest(QUIESCE_ROUNDS) + 1, reunion.timeout());
      reunion.agree(
          problem.isEmpty() ? "" : problem + ": " + REMEDY, reunion.timeout().multipliedBy(2));
      done = true;
    } finally {
      if (!done) {
        // Nothing leaves for other nodes any more.
        context.completion.needsReset("what was under way between the nodes has not ended");
      }
    }
  }

  /**
   * The same with ranks that call {@link CudaBufferOpening#rejoin} meanwhile. Until all ranks have
   * mapped what they need, the buffer stays as it was.
   */
  Group readmit() {
    context.requireOneNode("taking in ranks that come back", REMEDY);
    String refused = context.backend.refusesReadmission();
    if (!refused.isEmpty()) {
      throw new IllegalStateException("readmit: " + refused);
    }
    boolean broken = context.completion.isBroken();
    quiesce();
    context.completion.requireNotFenced("readmit");
    boolean taken = false;
    try (SurvivorAgreement reunion =
        SurvivorAgreement.withNewcomers(
            context.group, context.members, context.config, Nodes.one(context.ranks), words())) {
      map(reunion);
      taken = true;
      for (int r = 0; r < context.ranks; r++) {
        if (reunion.participants().isNew(r)) {
          context.members.take(r);
          context.fence.admit(r);
          if (part != null) {
            part.takeIn(r);
          }
        }
      }
      return beginAnew(reunion);
    } finally {
      if (!taken && !broken) {
        context.words.reset();
      }
    }
  }

  /** The last step of a rank that comes back. */
  Group rejoin(SurvivorAgreement reunion) {
    // The others tell whether they could map this rank's memory.
    reunion.agree("", reunion.timeout());
    return beginAnew(reunion);
  }

  /** Kernels that wait for somebody leave now; then nobody writes into anybody's words. */
  private void quiesce() {
    context.words.abort();
    context.completion.awaitAll();
  }

  /** In the order in which {@link CudaBufferOpening} does it on those that come back. */
  private void map(SurvivorAgreement reunion) {
    Participants meeting = reunion.participants();
    Duration timeout = reunion.timeout();
    boolean done = false;
    try {
      // Newcomers open their backend first; what they find does not change that of this rank.
      BackendWorld.gather(meeting, context.device, timeout, BackendProbe.found("", "", List.of()));
      context.calls.readmit(meeting, timeout);
      String problem = context.peers.stage(meeting, timeout);
      if (part != null) {
        String another = part.stage(meeting, timeout);
        problem = problem.isEmpty() ? another : problem;
      }
      reunion.agree(problem, timeout);
      fence(replaced(meeting), "readmit");
      context.peers.commit();
      done = true;
    } finally {
      if (!done) {
        context.peers.unstage();
        if (part != null) {
          part.unstage();
        }
      }
    }
  }

  /** The processes in whose place others have come. */
  private boolean[] replaced(Participants meeting) {
    boolean[] replaced = new boolean[context.ranks];
    for (int r = 0; r < replaced.length; r++) {
      replaced[r] = meeting.isNew(r);
    }
    return replaced;
  }

  /** The others may have lost this rank since they agreed: then it is for them to go on. */
  private void fence(boolean[] lost, String call) {
    if (!context.fence.fence(lost)) {
      throw context.completion.outside(call);
    }
  }

  private long[] words() {
    return new long[] {
      context.epoch(),
      part == null ? 0 : part.sent(context.rank),
      context.internode == null ? 0 : context.internode.quiesceRounds()
    };
  }

  /** Where this ends halfway, others may clear words that one of them has begun to use. */
  private Group beginAnew(SurvivorAgreement reunion) {
    boolean[] gone = reunion.gone();
    boolean done = false;
    try {
      fence(gone, "reset");
      context.peers.exclude(gone);
      context.owners.copyFrom(
          0, MemorySegment.ofArray(CudaBufferOpening.ownerTable(context.placement, gone)));
      if (context.internode != null) {
        context.internode.beginAnew(gone);
      }
      context.resumeAfter(reunion.highest(EPOCH) + LEAP);
      context.calls.clear();
      if (lowLatency != null) {
        lowLatency.reset(gone, reunion.highest(LOW_LATENCY) + LEAP);
      }
      reunion.live().barrier(reunion.timeout().plus(FENCE_SKEW));
      done = true;
    } finally {
      if (!done) {
        context.completion.needsReset("the ranks have not all begun anew");
      }
    }
    context.completion.reset(gone);
    context.generation++;
    return reunion.keep();
  }
}
