package org.ep4j.observe;

import jdk.jfr.Category;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.StackTrace;

/**
 * An event of one rank in the JDK's flight recorder. Written only while a recording runs, and made
 * only where something has gone wrong or takes long anyway.
 */
@Category({"ep4j"})
@StackTrace(false)
public abstract class RankEvent extends Event {
  /** The rank that records the event. */
  @Label("Rank")
  public int rank;

  /** An event that has not begun. */
  protected RankEvent() {}
}
