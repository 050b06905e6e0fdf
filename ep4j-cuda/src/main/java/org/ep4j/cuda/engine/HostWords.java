package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.memory.NativeMemory;

/**
 * Words in page-locked memory through which kernels and the host tell each other things.
 *
 * <p>{@code completed}: highest ticket of an operation that ended; written by kernels with release,
 * read here with acquire. {@code abort}: not 0 once waiting is vain; written here, read by waiting
 * kernels. The record: see {@code Record} in {@code kernels/protocol.cuh}; kernels write {@code
 * state} or {@code settled} last, with release. By rank: {@code masked}, written by kernels that
 * mask a rank and, while none runs, here; {@code gone}, not 0 once a dead rank has been evicted,
 * written here.
 */
final class HostWords implements AutoCloseable {
  /** A wait has missed its deadline. */
  static final long STATE_TIMEOUT = 1;

  /** A routing names an expert that does not exist. */
  static final long STATE_NO_SUCH_EXPERT = 2;

  /** A routing names an expert twice for a token. */
  static final long STATE_DUPLICATE = 3;

  /** A low-latency combine names another expert than its dispatch. */
  static final long STATE_NOT_AS_DISPATCHED = 4;

  /** A peer dispatches low-latency rows of another kind. */
  static final long STATE_OTHER_KIND = 5;

  /** In epochs: the number of a low-latency operation. */
  private static final long LOW_LATENCY = 1L << 62;

  private static final int STATE = 0;
  private static final int EPOCH = 8;
  private static final int PHASE = 16;
  private static final int PEER = 24;
  private static final int EXPECTED = 32;
  private static final int SEEN = 40;
  private static final int TOKEN = 48;
  private static final int CHOICE = 56;
  private static final int LEFT = 64;
  private static final int ATTRIBUTED = 72;
  private static final int ABORT = 128;
  private static final int COMPLETED = 256;
  private static final int MASKED = 4096;

  /**
   * All words. Once closed a copy of them: events may be asked at any time and from any thread, and
   * who comes late is answered as at the end.
   */
  private volatile MemorySegment words;

  private final long device;
  private final Runnable free;
  private final int ranks;

  HostWords(CudaDevice device, int ranks) {
    this(PinnedMemory.allocate(device, bytes(ranks)), ranks);
  }

  private HostWords(PinnedMemory memory, int ranks) {
    this(memory.segment(), memory.deviceAddress(), memory::close, ranks);
  }

  /**
   * @param words of an arena that {@code free} closes, so that reading them later is refused
   * @param device where kernels see them
   */
  HostWords(MemorySegment words, long device, Runnable free, int ranks) {
    this.words = words;
    this.device = device;
    this.free = free;
    this.ranks = ranks;
  }

  static long bytes(int ranks) {
    return MASKED + 2L * ranks * Long.BYTES;
  }

  private long get(long at) {
    try {
      return NativeMemory.getLongAcquire(words, at);
    } catch (IllegalStateException e) {
      // Closed between the look at the field and the load: the field has the copy by now.
      return NativeMemory.getLongAcquire(words, at);
    }
  }

  private void put(long at, long value) {
    try {
      NativeMemory.putLongRelease(words, at, value);
    } catch (IllegalStateException e) {
      NativeMemory.putLongRelease(words, at, value);
    }
  }

  long recordOnDevice() {
    return device + STATE;
  }

  long abortOnDevice() {
    return device + ABORT;
  }

  long completedOnDevice() {
    return device + COMPLETED;
  }

  long masksOnDevice() {
    return device + MASKED;
  }

  long goneOnDevice() {
    return device + MASKED + (long) ranks * Long.BYTES;
  }

  boolean masked(int rank) {
    return get(MASKED + (long) rank * Long.BYTES) != 0;
  }

  void setMasked(int rank, boolean masked) {
    put(MASKED + (long) rank * Long.BYTES, masked ? 1 : 0);
  }

  /** Tells waiting kernels that a rank is dead, and writes nothing any more. */
  void gone(int rank) {
    put(MASKED + (long) (ranks + rank) * Long.BYTES, 1);
  }

  /** In the place of a dead rank is another process. */
  void back(int rank) {
    put(MASKED + (long) (ranks + rank) * Long.BYTES, 0);
  }

  long completed() {
    return get(COMPLETED);
  }

  /**
   * 0 if there is nothing to tell, or not yet: whom a timeout in a high-throughput operation names
   * is settled only when its kernel ends.
   */
  long state() {
    long state = get(STATE);
    if (state != STATE_TIMEOUT) {
      return state;
    }
    long epoch = get(EPOCH);
    return (epoch & LOW_LATENCY) != 0 || get(ATTRIBUTED) == epoch ? state : 0;
  }

  long epoch() {
    return get(EPOCH) & ~LOW_LATENCY;
  }

  Phase phase() {
    return Phase.of(get(PHASE));
  }

  int peer() {
    return (int) get(PEER);
  }

  long expected() {
    return get(EXPECTED);
  }

  long seen() {
    return get(SEEN);
  }

  int token() {
    return (int) get(TOKEN);
  }

  int choice() {
    return (int) get(CHOICE);
  }

  /** Nanoseconds that were left to the wait when it ended; negative past the deadline. */
  long left() {
    return get(LEFT);
  }

  /** Tells waiting kernels to give up. */
  void abort() {
    put(ABORT, 1);
  }

  /** Forgets a failure, while no kernel runs that could write another. */
  void clearRecord() {
    put(STATE, 0);
  }

  /** As new, but for what has completed. */
  void reset() {
    put(ABORT, 0);
    clearRecord();
  }

  @Override
  public void close() {
    MemorySegment copy = MemorySegment.ofArray(new long[(int) (words.byteSize() / Long.BYTES)]);
    copy.copyFrom(words);
    words = copy;
    free.run();
  }
}
