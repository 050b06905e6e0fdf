package org.ep4j.observe;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Timespan;

/**
 * The time that one rank has waited for another in one operation. Recorded at the end of the
 * operation, for each rank that it waited for, if its {@link OperationEvent} is recorded.
 */
@Name("org.ep4j.Wait")
@Label("Wait for a rank")
@Description("Time that an operation has waited for one other rank")
public final class WaitEvent extends RankEvent {
  /** An event that has not begun. */
  public WaitEvent() {}

  /** What the rank called. */
  @Label("Operation")
  public String operation = "";

  /** Number of the operation in the buffer. */
  @Label("Number")
  public long number;

  /** The rank that was late. */
  @Label("Peer")
  public int peer;

  /** Time waited for it, in all phases of the operation. */
  @Label("Waited")
  @Timespan
  public long waited;
}
