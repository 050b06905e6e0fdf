package org.ep4j.observe;

import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;
import org.ep4j.BufferStatistics;
import org.ep4j.ExpertBuffer;

/** A buffer that was opened: begun with the call, ended by {@link #ended}. */
@Name("org.ep4j.Open")
@Label("Opening of a buffer")
@Description("A buffer was opened on all ranks, or by a rank that rejoins")
public final class OpenEvent extends RankEvent {
  /** An event that has not begun. */
  public OpenEvent() {}

  /** Ranks of the buffer. */
  @Label("Ranks")
  public int ranks;

  /** Engine of the buffer. */
  @Label("Engine")
  public String engine = "";

  /** Kind of wire between nodes. */
  @Label("Wire")
  public String wire = "";

  /** How GPUs reach each other. */
  @Label("Backend")
  public String backend = "";

  /** Elements of a row. */
  @Label("Hidden")
  public int hidden;

  /** Reserved bytes that peers can reach. */
  @Label("Symmetric memory")
  @DataAmount
  public long symmetricBytes;

  /** Reserved bytes of this rank only. */
  @Label("Private memory")
  @DataAmount
  public long privateBytes;

  /** Whether this rank rejoins the others. */
  @Label("Rejoined")
  public boolean rejoined;

  /** Ends the event and commits it; no-op without a recording. */
  public void ended(ExpertBuffer buffer, boolean again) {
    end();
    if (shouldCommit()) {
      rank = buffer.rank();
      ranks = buffer.worldSize();
      engine = buffer.engine();
      wire = buffer.config().wire();
      backend = buffer.config().backend();
      hidden = buffer.config().hidden();
      BufferStatistics statistics = buffer.statistics();
      symmetricBytes = statistics.symmetricBytes();
      privateBytes = statistics.privateBytes();
      rejoined = again;
      commit();
    }
  }
}
