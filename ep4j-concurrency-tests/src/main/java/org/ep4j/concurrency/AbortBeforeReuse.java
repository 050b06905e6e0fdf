package org.ep4j.concurrency;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import java.lang.invoke.VarHandle;
import org.ep4j.memory.NativeMemory;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.JJ_Result;

/**
 * A rank aborts its wait for a peer that reads its rows, and reuses their memory: a peer that has
 * read any new byte also sees the abort.
 */
@JCStressTest
@Outcome(id = "0, 0", expect = ACCEPTABLE, desc = "the rows, before their reuse")
@Outcome(id = "0, 1", expect = ACCEPTABLE, desc = "the rows, discarded in doubt")
@Outcome(id = "8, 1", expect = ACCEPTABLE, desc = "other bytes, and discarded")
@Outcome(id = "8, 0", expect = FORBIDDEN, desc = "other bytes, taken for the rows")
@State
public class AbortBeforeReuse {
  private final long aborted = StateMemory.take();
  private final long row = aborted + StateMemory.LINE;

  /** The reading rank, stopped or slow. */
  @Actor
  public void reader(JJ_Result seen) {
    seen.r1 = NativeMemory.getLong(row);
    VarHandle.acquireFence();
    seen.r2 = NativeMemory.getLongAcquire(aborted);
  }

  /** The rank that aborts. */
  @Actor
  public void owner() {
    NativeMemory.putLongRelease(aborted, 1);
    VarHandle.fullFence();
    NativeMemory.putLong(row, 8);
  }
}
