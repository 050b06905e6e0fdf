package org.ep4j.concurrency;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import org.ep4j.memory.NativeMemory;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.JJ_Result;

/** Waits are monotonic thresholds: an observed progress of a peer never decreases. */
@JCStressTest
@Outcome(
    id = {"0, 0", "0, 1", "0, 2", "1, 1", "1, 2", "2, 2"},
    expect = ACCEPTABLE,
    desc = "grows or stays")
@Outcome(expect = FORBIDDEN, desc = "went back")
@State
public class ProgressOnlyGrows {
  private final long progress = StateMemory.take();

  /** The rank that owns the word. */
  @Actor
  public void owner() {
    NativeMemory.putLongRelease(progress, 1);
    NativeMemory.putLongRelease(progress, 2);
  }

  /** A rank that reads twice. */
  @Actor
  public void waiter(JJ_Result seen) {
    seen.r1 = NativeMemory.getLongAcquire(progress);
    seen.r2 = NativeMemory.getLongAcquire(progress);
  }
}
