package org.ep4j.cuda.fake;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.struct.Control;
import org.ep4j.cuda.struct.ObservedWindows;

/**
 * Counts operations of a rank in the place of its kernels: writes the words that {@code
 * common/observation.cuh} defines, in the memory that the engine has given to the kernels.
 */
final class FakeWindows {
  private static final int OPERATIONS = 20;
  private static final int PLACES = 12;
  private static final int FIRST_COUNTER = 2;

  private final int ranks;
  private final MemorySegment region;
  private final MemorySegment windows;
  private final int words;

  /** After a low-latency operation of the rank. */
  FakeWindows(int ranks) {
    this.ranks = ranks;
    long control = FakeKernels.launches().getLast().get("control");
    region = FakeCalls.bytes(control, 4096);
    words = (int) word(Control.WORDS.observedWords.offset());
    windows =
        FakeCalls.bytes(
            word(Control.WORDS.windows.offset()),
            ObservedWindows.WORDS.bytes() + (long) PLACES * (FIRST_COUNTER + words) * Long.BYTES);
  }

  private long word(long offset) {
    return region.get(ValueLayout.JAVA_LONG, offset);
  }

  private void add(long offset, long more) {
    region.set(ValueLayout.JAVA_LONG, offset, word(offset) + more);
  }

  private static long counter(int i) {
    return Control.WORDS.bytes() + (long) i * Long.BYTES;
  }

  /** Operations since the rank has opened or reset its buffer. */
  long operations() {
    return word(Control.WORDS.operations.offset());
  }

  /** Words behind the control words. */
  int words() {
    return words;
  }

  /** The operations of one window have waited for a rank and brought tokens to a local expert. */
  void complete(int peer, long waited, int local, long tokens, long began, long ended) {
    if (operations() == 0) {
      windows.set(ValueLayout.JAVA_LONG, ObservedWindows.WORDS.began.offset(), began);
    }
    add(Control.WORDS.operations.offset(), OPERATIONS);
    add(Control.WORDS.rowsReceived.offset(), tokens);
    add(counter(peer), waited);
    add(counter(ranks + local), tokens);
    long number = operations() / OPERATIONS;
    long place = (number - 1) % PLACES;
    long record = ObservedWindows.WORDS.bytes() + place * (FIRST_COUNTER + words) * Long.BYTES;
    windows.set(ValueLayout.JAVA_LONG, record, ended);
    windows.set(
        ValueLayout.JAVA_LONG, record + Long.BYTES, word(Control.WORDS.rowsReceived.offset()));
    for (int i = 0; i < words; i++) {
      windows.set(
          ValueLayout.JAVA_LONG,
          record + (long) (FIRST_COUNTER + i) * Long.BYTES,
          word(counter(i)));
    }
    windows.set(ValueLayout.JAVA_LONG, ObservedWindows.WORDS.complete.offset(), number);
  }
}
