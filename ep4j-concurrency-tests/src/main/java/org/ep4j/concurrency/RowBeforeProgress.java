package org.ep4j.concurrency;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import org.ep4j.memory.NativeMemory;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.JJ_Result;

/**
 * A rank pushes a row and then publishes its progress: a peer that observes the progress sees the
 * row.
 */
@JCStressTest
@Outcome(id = "0, 0", expect = ACCEPTABLE, desc = "nothing arrived yet")
@Outcome(id = "0, 7", expect = ACCEPTABLE, desc = "the row arrived before the progress")
@Outcome(id = "1, 7", expect = ACCEPTABLE, desc = "both arrived")
@Outcome(id = "1, 0", expect = FORBIDDEN, desc = "progress without the row")
@State
public class RowBeforeProgress {
  private final long progress = StateMemory.take();
  private final long row = progress + StateMemory.LINE;

  /** The rank that owns the row. */
  @Actor
  public void source() {
    NativeMemory.putLong(row, 7);
    NativeMemory.putLongRelease(progress, 1);
  }

  /** The receiving rank. */
  @Actor
  public void receiver(JJ_Result seen) {
    seen.r1 = NativeMemory.getLongAcquire(progress);
    seen.r2 = NativeMemory.getLong(row);
  }
}
