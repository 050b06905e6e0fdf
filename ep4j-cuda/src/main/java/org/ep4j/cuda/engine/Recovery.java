package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.StepFailure;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.failure.StaleRankFence;
import org.ep4j.cuda.engine.lowlatency.LowLatency;
import org.ep4j.cuda.engine.lowlatency.LowLatencyRegion;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.engine.world.SurvivorAgreement;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.group.Group;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * Recovery from a failed operation, and readmission of returning ranks: the live ranks meet through
 * the group, end the work of their GPUs, agree on the dead ranks, ensure that dead ranks no longer
 * write to them, and clear their words before any of them starts again, with numbers that no rank
 * has used. The words of a returning rank are equally clear.
 *
 * <p>Between nodes, data may still be in flight after kernels have ended. A reset awaits it before
 * words are cleared, and lanes to dead nodes must end; wire, memory and all addresses stay. A
 * readmission opens another transport with other memory in place of the old one, so nothing that is
 * in flight matters. A fence reaches memory of its own node only; kernels of a dead rank of another
 * node reach this rank only through the wire.
 */
final class Recovery {
  private static final int EPOCH = 0;
  private static final int LOW_LATENCY = 1;
  private static final int QUIESCE_ROUNDS = 2;
  private static final int TOPIC = 3;

  /** Words of the agreement. */
  static final int AGREED_WORDS = 4;

  /** More operations than a dead rank can have been ahead of the survivors. */
  private static final long LEAP = 8;

  /** Largest skew between ranks that fence replaced ranks and then dead ranks. */
  private static final Duration FENCE_SKEW = StaleRankFence.MAX_DURATION.multipliedBy(2);

  private static final String REMEDY =
      "close the buffer on all live ranks and open another one among them";

  private final CudaContext context;
  private final @Nullable LowLatency lowLatency;
  private final @Nullable LowLatencyRegion part;

  /**
   * @param part low-latency part; null without low-latency operations
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
    // The other ranks may still be in a wait that only its own timeout ends.
    Duration timeout = context.config.timeout().multipliedBy(2);
    boolean begins = false;
    try (SurvivorAgreement agreement =
        SurvivorAgreement.ofSurvivors(context.group, context.members, timeout, words())) {
      if (context.internode != null) {
        requireLossSupported(context.internode, agreement.gone());
        quiesceInternode(context.internode, agreement, agreement.gone());
      }
      begins = true;
      return beginAnew(
          agreement, "reset", () -> {}, internode -> internode.beginAnew(agreement.gone()));
    } finally {
      if (!begins) {
        context.completion.letKernelsWait();
      }
    }
  }

  /**
   * Admits masked ranks of several nodes: the low-latency operations of all live ranks begin anew,
   * with a number that no rank has used, because masked ranks have missed some and words for them
   * were not sent. Collective among the live ranks, none of which is inside an operation.
   *
   * <p>Dead ranks stay masked. Transfers of theirs need not have ended: they change only what they
   * alone write, which no rank reads.
   */
  void admitMasked(InternodeConnection internode, LowLatency operations) {
    context.completion.awaitAll();
    context.completion.requireNotFenced("cleanMask");
    context.completion.requireUsable();
    Duration timeout = context.config.timeout().multipliedBy(2);
    try (SurvivorAgreement agreement =
        SurvivorAgreement.ofSurvivors(context.group, context.members, timeout, words())) {
      agreement.agree(operations.refusesAdmission(), agreement.timeout());
      boolean[] excluded = context.completion.excluded();
      boolean[] missing = agreement.gone();
      quiesceInternode(internode, agreement, excluded);
      beginAnew(
          agreement,
          "cleanMask",
          () -> {
            fence(missing, "cleanMask");
            internode.beginAnew(excluded);
            operations.admit(missing, agreement.highest(LOW_LATENCY) + LEAP);
          });
    }
  }

  private static void requireLossSupported(InternodeConnection internode, boolean[] gone) {
    String refused = internode.refusesLoss(gone);
    if (!refused.isEmpty()) {
      // All ranks reach the same decision.
      throw new UnsupportedOperationException(
          ErrorCode.RESET_UNSUPPORTED.message("reset: " + refused + ": " + REMEDY));
    }
  }

  /**
   * Kernels of all ranks have ended; data for other nodes may still be in flight.
   *
   * @param gone ranks whose transfers must have ended
   */
  private void quiesceInternode(
      InternodeConnection internode, SurvivorAgreement agreement, boolean[] gone) {
    boolean done = false;
    try {
      String problem = quiesce(internode, agreement, gone);
      agreement.agree(
          problem.isEmpty() ? "" : problem + ": " + REMEDY, agreement.timeout().multipliedBy(2));
      done = true;
    } finally {
      if (!done) {
        // This rank can no longer send to other nodes.
        context.completion.needsReset("transfers between the nodes have not ended");
      }
    }
  }

  /** Empty, or why transfers have not ended: the other ranks wait for the answer. */
  private static String quiesce(
      InternodeConnection internode, SurvivorAgreement agreement, boolean[] gone) {
    try {
      long round = agreement.highest(QUIESCE_ROUNDS) + 1;
      return internode.quiesce(agreement.gone(), gone, round, agreement.timeout());
    } catch (Ep4jException e) {
      return String.valueOf(e.getMessage());
    }
  }

  /**
   * Same as {@link #reset} with ranks that call {@link CudaBufferOpening#rejoin} at the same time.
   * The buffer stays unchanged until all ranks have mapped what they need.
   */
  Group readmit() {
    String refused = context.backend.refusesReadmission();
    if (!refused.isEmpty()) {
      throw new IllegalUseException(ErrorCode.READMISSION_UNSUPPORTED, "readmit: " + refused);
    }
    quiesce();
    context.completion.requireNotFenced("readmit");
    boolean taken = false;
    try (SurvivorAgreement agreement =
        SurvivorAgreement.withNewcomers(
            context.group, context.members, comparedConfig(), context.nodes, words())) {
      map(agreement);
      taken = true;
      return begin(agreement, "readmit", () -> takeIn(agreement.participants()));
    } finally {
      if (!taken) {
        context.completion.letKernelsWait();
      }
    }
  }

  /** The last step of a returning rank. */
  Group rejoin(SurvivorAgreement agreement) {
    return begin(agreement, "rejoin", () -> {});
  }

  /** The configuration that all ranks compare; a returning rank knows no other. */
  private BufferConfig comparedConfig() {
    return context.internode == null ? context.config : context.internode.config();
  }

  /** Waiting kernels abort; afterwards no kernel writes words of any rank. */
  private void quiesce() {
    context.words.abort();
    context.completion.awaitAll();
  }

  /** Replaces the memory of returning ranks once all ranks have mapped what they need. */
  private void map(SurvivorAgreement agreement) {
    RejoinSteps steps = new RejoinSteps(agreement);
    boolean done = false;
    try {
      steps.telling(
          () -> {
            stage(agreement, steps);
            return "";
          });
      fence(replaced(agreement.participants()), "readmit");
      context.peers.commit();
      done = true;
    } finally {
      if (!done) {
        unstage();
      }
    }
  }

  private void unstage() {
    context.peers.unstage();
    if (part != null) {
      part.unstage();
    }
    if (context.internode != null) {
      context.internode.unstage();
    }
  }

  /** Same order as in {@link CudaBufferOpening} on the returning ranks. */
  private void stage(SurvivorAgreement agreement, RejoinSteps steps) {
    Participants participants = agreement.participants();
    Duration timeout = agreement.timeout();
    if (context.internode != null) {
      requireReadmission(context.internode, agreement.gone());
    }
    steps.meet();
    // Returning ranks open their backend first; their result does not change the backend of this
    // rank.
    BackendWorld world =
        BackendWorld.gather(
            participants, context.device, timeout, BackendProbe.found("", "", List.of()));
    if (context.internode != null) {
      connect(context.internode, participants, world, steps);
    }
    steps.meet();
    steps.exchange(
        () -> {
          context.calls.readmit(participants, timeout);
          return "";
        });
    steps.meet();
    String problem = context.peers.stage(participants, timeout);
    if (part != null) {
      agreement.agree(problem, timeout);
      problem = part.stage(participants, timeout);
    }
    agreement.agree(problem, timeout);
  }

  private void requireReadmission(InternodeConnection internode, boolean[] gone) {
    String refused = internode.refusesReadmission(gone);
    if (refused.isEmpty() && lowLatency != null) {
      refused = lowLatency.refusesReconnection();
    }
    if (!refused.isEmpty()) {
      throw new IllegalUseException(ErrorCode.READMISSION_UNSUPPORTED, "readmit: " + refused);
    }
  }

  /** Opens the transport between the nodes anew, next to the old one. */
  private static void connect(
      InternodeConnection internode,
      Participants participants,
      BackendWorld world,
      RejoinSteps steps) {
    steps.meet();
    steps.exchange(
        () -> {
          internode.stage(participants, world);
          return "";
        });
    internode.requireSameMode();
  }

  /** The processes that other processes have replaced. */
  private boolean[] replaced(Participants participants) {
    boolean[] replaced = new boolean[context.ranks];
    for (int r = 0; r < replaced.length; r++) {
      replaced[r] = participants.isNew(r);
    }
    return replaced;
  }

  /** The survivors may have lost this rank since they agreed: then only they continue. */
  private void fence(boolean[] lost, String call) {
    if (!context.fence.fence(lost)) {
      throw context.completion.outside(call);
    }
  }

  /** The processes that have replaced others take part from now on. */
  private void takeIn(Participants participants) {
    if (context.internode != null) {
      context.internode.commit();
      if (lowLatency != null) {
        lowLatency.reconnect();
      }
    }
    for (int r = 0; r < context.ranks; r++) {
      if (participants.isNew(r)) {
        context.members.take(r);
        context.fence.admit(r);
        if (part != null) {
          part.takeIn(r);
        }
      }
    }
  }

  private void restart(
      SurvivorAgreement agreement,
      String call,
      boolean[] gone,
      Consumer<InternodeConnection> transport) {
    fence(gone, call);
    context.peers.exclude(gone);
    context.owners.copyFrom(
        0, MemorySegment.ofArray(CudaBufferOpening.ownerTable(context.placement, gone)));
    if (context.internode != null) {
      transport.accept(context.internode);
    }
    long epoch = agreement.highest(EPOCH) + LEAP;
    context.resumeAfter(epoch);
    context.calls.clear();
    context.notices.restart(agreement.highest(TOPIC), epoch);
    if (lowLatency != null) {
      lowLatency.reset(gone, agreement.highest(LOW_LATENCY) + LEAP);
    }
  }

  private long[] words() {
    return new long[] {
      context.epoch(),
      part == null ? 0 : part.sent(context.rank),
      context.internode == null ? 0 : context.internode.quiesceRounds(),
      context.notices.topic()
    };
  }

  /** The buffer starts with returning ranks, on a transport that no rank has used. */
  private Group begin(SurvivorAgreement agreement, String call, Runnable first) {
    return beginAnew(agreement, call, first, internode -> internode.begin(agreement.gone()));
  }

  /**
   * The buffer starts again without the dead ranks.
   *
   * @param call its name, for errors
   * @param first what the rank does before it clears its words
   * @param transport starts the transport between the nodes
   */
  private Group beginAnew(
      SurvivorAgreement agreement,
      String call,
      Runnable first,
      Consumer<InternodeConnection> transport) {
    boolean[] gone = agreement.gone();
    beginAnew(
        agreement,
        call,
        () -> {
          first.run();
          restart(agreement, call, gone, transport);
        });
    context.completion.reset(gone);
    context.generation++;
    return agreement.keep();
  }

  /**
   * A rank that fails tells the others, which wait for it: all of them need a reset, as some may
   * have cleared words that the others still use.
   */
  private void beginAnew(SurvivorAgreement agreement, String call, Runnable start) {
    try {
      Boolean _ =
          agreement.step(
              agreement.timeout().plus(FENCE_SKEW),
              () ->
                  StepFailure.explained(
                      context.rank,
                      "the buffer for " + call,
                      () -> {
                        start.run();
                        return true;
                      }),
              _ -> {});
    } catch (RuntimeException | Error e) { // also memory that runs out
      context.completion.needsReset(
          "not all ranks have completed the " + call + ": " + e.getMessage());
      throw e;
    }
  }
}
