package org.ep4j.concurrency;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import org.ep4j.memory.NativeMemory;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.J_Result;

/**
 * Reuse of a region without a reset: the receiver reads a row and then publishes that it is done; a
 * source that observes this may overwrite the row, and the receiver has not read the new bytes.
 */
@JCStressTest
@Outcome(id = "0", expect = ACCEPTABLE, desc = "the row of this epoch")
@Outcome(expect = FORBIDDEN, desc = "the row of the next epoch")
@State
public class ReuseAfterRelease {
  private final long done = StateMemory.take();
  private final long row = done + StateMemory.LINE;

  /** The receiving rank. */
  @Actor
  public void receiver(J_Result seen) {
    seen.r1 = NativeMemory.getLong(row);
    NativeMemory.putLongRelease(done, 1);
  }

  /** The rank that sends the next row. */
  @Actor
  public void source() {
    if (NativeMemory.getLongAcquire(done) == 1) {
      NativeMemory.putLong(row, 8);
    }
  }
}
