package org.ep4j.engine.host.buffer;

import java.time.Duration;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.lowlatency.LowLatency;
import org.ep4j.engine.world.SurvivorAgreement;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.memory.SymmetricMemory;

/**
 * Recovery from a failed operation, and readmission of ranks: the live ranks gather through the
 * group, not through words in shared memory, and agree on the dead ranks, on an unused epoch, and
 * on the number of the last low-latency operation.
 */
final class Recovery {
  private static final int EPOCH = 0;
  private static final int LOW_LATENCY = 1;
  private static final int MEMORY = 2;

  /** Number of words that the ranks agree on. */
  static final int AGREED_WORDS = 3;

  private final HostContext context;
  private final HostMemory memory;
  private final LowLatency lowLatency;
  private final Connector connector;

  private final RegionReplacement replacement;

  // The other ranks may begin their hopeless wait only when this rank's notice arrives, so this
  // timeout is longer.
  private final Duration timeout;

  Recovery(HostContext context, HostMemory memory, LowLatency lowLatency, Connector connector) {
    this.context = context;
    this.memory = memory;
    this.lowLatency = lowLatency;
    this.connector = connector;
    replacement = new RegionReplacement(context, memory, lowLatency, MEMORY);
    timeout = context.config.timeout().multipliedBy(2);
  }

  /** Collective among the live ranks. */
  void reset() {
    try (SurvivorAgreement agreement =
        SurvivorAgreement.ofSurvivors(context.group, context.members, timeout, words())) {
      replacement.from(agreement, context.excluded, RegionReplacement.EXPOSED);
      restart(agreement);
      replacement.ended(false);
    } catch (InternalError e) {
      throw outOfPages("reset", e);
    }
  }

  /** Collective among the live ranks, some of which call {@link HostBufferFactory#rejoin}. */
  void readmit() {
    try (SurvivorAgreement agreement =
        SurvivorAgreement.withNewcomers(
            context.group, context.members, context.config, context.nodes, words())) {
      memory.symmetric().readmit(agreement.participants(), timeout);
      // A newcomer tells here whether the rest of its buffer could be made.
      agreement.agree("", timeout);
      boolean left = replaceWithNewcomers(agreement);
      for (int r = 0; r < context.ranks; r++) {
        if (agreement.participants().isNew(r)) {
          context.members.take(r);
          lowLatency.takeIn(r);
        }
      }
      restart(agreement);
      replacement.ended(!left);
      lowLatency.agreed();
    } catch (InternalError e) {
      throw outOfPages("readmit", e);
    }
  }

  /** The last step of a rank that rejoins. */
  void rejoin(SurvivorAgreement agreement) {
    replaceWithNewcomers(agreement);
    restart(agreement);
    replacement.ended(false);
    lowLatency.agreed();
  }

  /**
   * Only from ranks that are still dead: a dead rank keeps its old memory, and a rank that dies
   * while it rejoins takes no memory from the others. Rejoining ranks do not know to which ranks
   * memory was left.
   */
  private boolean replaceWithNewcomers(SurvivorAgreement agreement) {
    return replacement.from(agreement, new boolean[context.ranks], RegionReplacement.UNSETTLED);
  }

  private long[] words() {
    return new long[] {context.epoch, lowLatency.number(), replacement.reach()};
  }

  private Ep4jException outOfPages(String call, InternalError fault) {
    context.needsReset(call + " found no page of memory");
    // The words of recovery have had memory since the buffer was opened, so no repetition helps.
    return new Ep4jException(
        ErrorCode.OUT_OF_SHARED_MEMORY,
        call
            + ": the system cannot provide a page of memory: "
            + SymmetricMemory.freeText()
            + "; close the buffer on all ranks and open one with lower maxTokens, or enlarge the"
            + " directory",
        fault);
  }

  private void restart(SurvivorAgreement agreement) {
    boolean[] gone = agreement.gone();
    System.arraycopy(gone, 0, context.excluded, 0, gone.length);
    Group live = agreement.live();
    String unfinished = "its connection to other nodes could not be opened again";
    boolean begun = false;
    try {
      if (connector.reconnect(live, agreement.participants().numbers())) {
        agreement.keep();
      }
      unfinished = "not all ranks have completed the reset";
      context.restart(agreement.highest(EPOCH) + 1);
      begun = true;
      lowLatency.reset(agreement.highest(LOW_LATENCY));
      // No rank begins an operation before all ranks have left the old epochs.
      live.barrier(timeout);
    } catch (RuntimeException | Error e) { // also memory that runs out
      String reason = unfinished + ": " + e.getMessage();
      if (begun) {
        // The other ranks may have completed the reset, and wait for this one.
        context.breakBecause(reason, null);
      } else {
        context.needsReset(reason);
      }
      throw e;
    }
  }
}
