package org.ep4j.observe;

import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Threshold;
import jdk.jfr.Timespan;

/**
 * One operation of a buffer on one rank, in the JDK's flight recorder. An engine reuses one event.
 */
@Name("org.ep4j.Operation")
@Label("Expert-parallel operation")
@Description("A dispatch, combine or barrier, and the ranks for which it waited")
@Threshold("10 ms")
public final class OperationEvent extends RankEvent {
  /** Reused for each rank that an operation waited for. */
  private final transient WaitEvent wait = new WaitEvent();

  /** An event that has not begun. */
  public OperationEvent() {}

  /** What the rank called. */
  @Label("Operation")
  public String operation = "";

  /** Number of the operation in the buffer. */
  @Label("Number")
  public long number;

  /** Rows that it brought to this rank; 0 for combines. */
  @Label("Received rows")
  public long rows;

  /** Bytes of these rows and of their scales. */
  @Label("Received bytes")
  @DataAmount
  public long bytes;

  /** Time waited for other ranks. */
  @Label("Waited")
  @Timespan
  public long waited;

  /** The rank with the longest wait; -1 if there was none. */
  @Label("Longest wait for rank")
  public int longestWaitFor;

  /** That wait. */
  @Label("Longest wait")
  @Timespan
  public long longestWait;

  /**
   * Ends the event of an operation and commits it if it took longer than the threshold; no-op
   * without a recording.
   */
  public void ended(ObservationLog log, int ofRank, String name, long ofNumber) {
    end();
    if (shouldCommit()) {
      rank = ofRank;
      operation = name;
      number = ofNumber;
      rows = log.operationRows();
      bytes = log.operationBytes();
      waited = log.operationWaited();
      longestWait = log.longestWait();
      longestWaitFor = log.longestWaitFor();
      commit();
      recordWaits(log);
    }
  }

  private void recordWaits(ObservationLog log) {
    if (!wait.isEnabled()) {
      return;
    }
    wait.rank = rank;
    wait.operation = operation;
    wait.number = number;
    for (int i = 0; i < log.awaitedRanks(); i++) {
      wait.peer = log.awaitedRank(i);
      wait.waited = log.operationWaitedFor(wait.peer);
      wait.begin();
      wait.commit();
    }
  }
}
