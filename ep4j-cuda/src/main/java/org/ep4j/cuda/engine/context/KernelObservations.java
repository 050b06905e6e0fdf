package org.ep4j.cuda.engine.context;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.struct.Control;
import org.ep4j.cuda.struct.ObservedWindows;
import org.ep4j.memory.NativeMemory;
import org.ep4j.observe.ObservationLog;
import org.ep4j.observe.RankObservation;
import org.ep4j.observe.TimeoutLog;
import org.ep4j.routing.ExpertPlacement;

/**
 * What the kernels of a rank have counted: waits for other ranks and received rows, in windows of
 * {@link ObservationLog#WINDOW} operations, and tokens of local experts.
 *
 * <p>Kernels count in memory of the GPU. The last block of the operation that completes a window
 * copies the counters to page-locked memory ({@code kernels/common/observation.cuh}); so windows
 * are the same operations on all ranks, also those of replayed graphs. The host does nothing for
 * it: no call, wait or copy. {@link #snapshot} reads the page-locked memory, at any time and on any
 * thread: it takes no lock, makes no call of the driver, and never waits for a kernel.
 *
 * <p>{@link #restart} and {@link #close} are for the thread in the buffer, while no kernel runs.
 */
public final class KernelObservations implements AutoCloseable {
  /** Windows that kernels keep: they write one while the host copies the others. */
  private static final int PLACES = ObservationLog.KEPT + 2;

  // Words of a record before those behind the control words, as in observation.cuh.
  private static final int ENDED = 0;
  private static final int ROWS = 1;
  private static final int OBSERVED = 2;

  private final TimeoutLog timeouts;
  private final int ranks;
  private final int[] experts;
  private final PinnedMemory memory;

  /** The windows. After close, a copy of them: any thread may observe at any time. */
  private volatile MemorySegment words;

  private volatile Start start;

  /**
   * The counters when windows began anew. Immutable.
   *
   * @param settled whether the windows are those of operations after it
   */
  private record Start(long rows, long[] tokens, boolean settled) {}

  public KernelObservations(CudaDevice device, ExpertPlacement placement, TimeoutLog timeouts) {
    this.timeouts = timeouts;
    int rank = timeouts.rank();
    ranks = placement.ranks();
    experts = new int[placement.localExperts(rank)];
    for (int local = 0; local < experts.length; local++) {
      experts[local] = placement.expertAt(rank, local);
    }
    memory = PinnedMemory.allocate(device, bytes(ranks, experts.length));
    words = memory.segment();
    start = new Start(0, new long[experts.length], true);
  }

  /** Page-locked memory of a rank. */
  public static long bytes(int ranks, int localExperts) {
    return ObservedWindows.WORDS.bytes() + PLACES * recordBytes(ranks, localExperts);
  }

  private static long recordBytes(int ranks, int localExperts) {
    return (OBSERVED + (long) ranks + localExperts) * Long.BYTES;
  }

  /** Bytes behind the control words of a rank: waits by rank, tokens by expert. */
  static long countedBytes(int ranks, int localExperts) {
    return ((long) ranks + localExperts) * Long.BYTES;
  }

  /** Lets kernels publish windows. Their words are clear, and no kernel runs. */
  public void attach(DeviceMemory region) {
    region.copyFrom(
        Control.WORDS.windows.offset(), MemorySegment.ofArray(new long[] {memory.deviceAddress()}));
    region.copyFrom(
        Control.WORDS.observedWords.offset(),
        MemorySegment.ofArray(new long[] {(long) ranks + experts.length}));
  }

  /**
   * Forgets all windows: all ranks begin anew together, after a reset. Tokens stay.
   *
   * @param region whose operations and waits are cleared
   */
  void restart(DeviceMemory region) {
    long[] rows = new long[1];
    region.copyTo(Control.WORDS.rowsReceived.offset(), MemorySegment.ofArray(rows));
    long[] tokens = new long[experts.length];
    if (tokens.length > 0) {
      region.copyTo(
          Control.WORDS.bytes() + (long) ranks * Long.BYTES, MemorySegment.ofArray(tokens));
    }
    start = new Start(rows[0], tokens, false);
    NativeMemory.putLongRelease(words, ObservedWindows.WORDS.complete.offset(), 0);
    start = new Start(rows[0], tokens, true);
  }

  /** A copy of the complete windows and of the tokens. Any thread. */
  public RankObservation snapshot() {
    try {
      return snapshot(words);
    } catch (IllegalStateException e) {
      // Closed between the read of the field and the loads: the field now refers to the copy.
      return snapshot(words);
    }
  }

  private RankObservation snapshot(MemorySegment from) {
    Start since = start;
    long complete = complete(from);
    long oldest = Math.max(0, complete - ObservationLog.KEPT);
    // Counters only grow: a window is the difference to the record before its own.
    List<long[]> records = new ArrayList<>();
    for (long number = oldest - 1; number < complete; number++) {
      records.add(number < 0 ? first(from, since) : record(from, number));
    }
    VarHandle.acquireFence();
    // Kernels may have overwritten the oldest records meanwhile, or windows have begun anew.
    boolean valid = since.settled && start == since;
    long now = complete(from);
    List<RankObservation.Window> windows = new ArrayList<>();
    for (int i = 1; valid && i < records.size(); i++) {
      long number = oldest + i - 1;
      if (number == 0 || number - 1 > now - PLACES) {
        windows.add(window(number, records.get(i - 1), records.get(i)));
      }
    }
    long[] tokens =
        valid && complete > 0
            ? Arrays.copyOfRange(
                records.getLast(), OBSERVED + ranks, OBSERVED + ranks + experts.length)
            : since.tokens;
    return RankObservation.of(ranks, windows, experts, tokens, timeouts);
  }

  private static long complete(MemorySegment from) {
    return NativeMemory.getLongAcquire(from, ObservedWindows.WORDS.complete.offset());
  }

  private long[] record(MemorySegment from, long number) {
    long bytes = recordBytes(ranks, experts.length);
    return from.asSlice(ObservedWindows.WORDS.bytes() + number % PLACES * bytes, bytes)
        .toArray(ValueLayout.JAVA_LONG);
  }

  /** In the place of a record before the first window. */
  private long[] first(MemorySegment from, Start since) {
    long[] record = new long[OBSERVED + ranks + experts.length];
    record[ENDED] = NativeMemory.getLongAcquire(from, ObservedWindows.WORDS.began.offset());
    record[ROWS] = since.rows;
    return record;
  }

  private RankObservation.Window window(long number, long[] before, long[] at) {
    long[] waited = new long[ranks];
    for (int r = 0; r < ranks; r++) {
      // Threads may wait for blocks of their own rank; that is no wait for another one.
      waited[r] = r == timeouts.rank() ? 0 : at[OBSERVED + r] - before[OBSERVED + r];
    }
    return new RankObservation.Window(
        number, at[ENDED] - before[ENDED], at[ROWS] - before[ROWS], waited);
  }

  @Override
  public void close() {
    MemorySegment copy = MemorySegment.ofArray(new long[(int) (words.byteSize() / Long.BYTES)]);
    copy.copyFrom(words);
    words = copy;
    memory.close();
  }
}
