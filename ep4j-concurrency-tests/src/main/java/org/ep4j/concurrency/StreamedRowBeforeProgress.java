package org.ep4j.concurrency;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import java.lang.foreign.Arena;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.NonTemporalCopy;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.JJ_Result;

/**
 * The same for a row written with non-temporal stores: only the fence orders them, not the release
 * store after it. The receiver reads the end of the row.
 */
@JCStressTest
@Outcome(id = "0, 0", expect = ACCEPTABLE, desc = "nothing arrived yet")
@Outcome(id = "0, 7", expect = ACCEPTABLE, desc = "the row arrived before the progress")
@Outcome(id = "1, 7", expect = ACCEPTABLE, desc = "both arrived")
@Outcome(id = "1, 0", expect = FORBIDDEN, desc = "progress without the row")
@State
public class StreamedRowBeforeProgress {
  private static final long ROW_BYTES = 3 * StateMemory.LINE;
  private static final long SOURCE = source(ROW_BYTES);

  private final long progress = StateMemory.take();
  private final long row = progress + StateMemory.LINE;
  private final NonTemporalCopy stream = new NonTemporalCopy(1);

  private static long source(long bytes) {
    long address = Arena.global().allocate(bytes, StateMemory.LINE).address();
    for (long at = 0; at < bytes; at += Long.BYTES) {
      NativeMemory.putLong(address + at, 7);
    }
    return address;
  }

  /** The rank that owns the row. */
  @Actor
  public void source() {
    stream.places[0] = row;
    stream.copy(SOURCE, ROW_BYTES, 0, 1);
    NonTemporalCopy.fence();
    NativeMemory.putLongRelease(progress, 1);
  }

  /** The receiving rank. */
  @Actor
  public void receiver(JJ_Result seen) {
    seen.r1 = NativeMemory.getLongAcquire(progress);
    seen.r2 = NativeMemory.getLong(row + ROW_BYTES - Long.BYTES);
  }
}
