package org.ep4j.engine.host.buffer;

import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.lowlatency.LowLatency;
import org.ep4j.engine.world.SurvivorAgreement;

/**
 * Replaces memory that a lost rank can still write. A lost rank may only have been stopped and be
 * about to write its rows. No word can stop a store that is in progress, so the live ranks leave
 * the memory to the lost rank and continue in new memory.
 */
final class RegionReplacement {
  /** No rank outside the members can write the memory of the live ranks. */
  private static final long SETTLED = 0;

  /** The old process of a readmitted rank can write the memory: the next reset replaces it. */
  static final long EXPOSED = 1;

  /**
   * A replacement may be incomplete on some ranks: the next reset or readmission replaces the
   * memory again.
   */
  static final long UNSETTLED = 2;

  private final HostContext context;
  private final HostMemory memory;
  private final LowLatency lowLatency;
  private final int word;

  private long reach = SETTLED;

  /**
   * @param word of a {@link SurvivorAgreement} with which the ranks agree on {@link #reach}
   */
  RegionReplacement(HostContext context, HostMemory memory, LowLatency lowLatency, int word) {
    this.context = context;
    this.memory = memory;
    this.lowLatency = lowLatency;
    this.word = word;
  }

  /**
   * This rank's knowledge of which processes can write the memory; the highest value of all ranks
   * counts.
   */
  long reach() {
    return reach;
  }

  /**
   * Replaces the memory of nodes that have lost a rank, or of all nodes if the ranks agree on
   * {@code reach} or more; collective among all participants, which pass the same arguments.
   *
   * @param left ranks to which memory was left before
   * @return whether the memory of this node has been replaced
   */
  boolean from(SurvivorAgreement agreement, boolean[] left, long reach) {
    boolean[] gone = agreement.gone();
    boolean any = agreement.highest(word) >= reach;
    boolean here = any;
    for (int r = 0; r < gone.length; r++) {
      boolean lost = gone[r] && !left[r];
      any |= lost;
      here |= lost && context.isIntranode(r);
    }
    if (any) {
      leave(agreement, here);
    }
    return here;
  }

  private void leave(SurvivorAgreement agreement, boolean here) {
    reach = UNSETTLED;
    boolean done = false;
    try {
      if (here) {
        context.abandonRegion();
      }
      memory.symmetric().leave(agreement.participants(), here, agreement.timeout());
      if (here) {
        lowLatency.renewed();
      }
      done = true;
    } finally {
      if (!done) {
        context.needsReset("the memory that lost ranks can write could not be replaced");
      }
    }
  }

  /**
   * Called when all ranks have started again.
   *
   * @param exposed whether the old process of a readmitted rank may write this memory
   */
  void ended(boolean exposed) {
    reach = exposed ? EXPOSED : SETTLED;
  }
}
