package org.ep4j.engine.host;

import org.ep4j.engine.SurvivorAgreement;

/**
 * How the live ranks withdraw from memory that a rank which was lost still reaches. Such a rank may
 * only have been stopped, and be about to write its rows: no word that the others write can stop a
 * store that is under way, so they leave the memory to it and go on in other.
 */
final class RegionReplacement {
  /** Nobody who is not a member reaches the memory of the live ranks. */
  private static final long SETTLED = 0;

  /** The old process of a rank that has come back may: the next reset leaves the memory. */
  static final long EXPOSED = 1;

  /** It is not known whether all have left their memory: whatever is next leaves it again. */
  static final long UNSETTLED = 2;

  private final HostContext context;
  private final HostMemory memory;
  private final LowLatency lowLatency;
  private final int word;

  private long reach = SETTLED;

  /**
   * @param word of a {@link SurvivorAgreement} by which the ranks agree on {@link #reach}
   */
  RegionReplacement(HostContext context, HostMemory memory, LowLatency lowLatency, int word) {
    this.context = context;
    this.memory = memory;
    this.lowLatency = lowLatency;
    this.word = word;
  }

  /** Who reaches the memory, as far as this rank knows; the highest that a rank says counts. */
  long reach() {
    return reach;
  }

  /**
   * Leaves the memory of nodes that have lost a rank, or of all if the ranks agree on {@code reach}
   * or more; collective among all that meet, who pass the same.
   *
   * @param left ranks to whom it was left before
   * @return whether the memory of this node has been left
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
        context.needsReset("memory could not be left to the ranks that were lost");
      }
    }
  }

  /**
   * All ranks have begun anew.
   *
   * @param exposed whether the old process of a rank that has come back may reach this memory
   */
  void ended(boolean exposed) {
    reach = exposed ? EXPOSED : SETTLED;
  }
}
