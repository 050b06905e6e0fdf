package org.ep4j.cuda.engine.failure;

import java.lang.foreign.MemorySegment;
import java.util.Objects;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.engine.launch.Phase;
import org.ep4j.memory.NativeMemory;

/**
 * Words in page-locked memory for communication between kernels and the host.
 *
 * <p>{@code completed}: highest ticket of a completed operation; kernels write with release, the
 * host reads with acquire. {@code abort}: nonzero if all waits must abort, and behind it {@code
 * gone} by rank: nonzero if those for that rank must, because it is dead and fenced or has closed
 * its buffer; the host writes, waiting kernels read. The record: see {@code Record} in {@code
 * kernels/common/protocol.cuh}; kernels write {@code state} or {@code attributed_epoch} last, with
 * release. By rank: {@code masked}, written by kernels that mask a rank and by the host while no
 * kernel runs.
 */
public final class HostWords implements AutoCloseable {
  /** A wait missed its deadline. */
  static final long STATE_TIMEOUT = 1;

  /** A routing names an expert that does not exist. */
  static final long STATE_NO_SUCH_EXPERT = 2;

  /** A routing names an expert twice for a token. */
  static final long STATE_DUPLICATE = 3;

  /** A low-latency combine names other experts than its dispatch. */
  static final long STATE_NOT_AS_DISPATCHED = 4;

  /** A peer dispatches low-latency rows of another kind. */
  static final long STATE_OTHER_KIND = 5;

  /** Flag in epochs: the epoch is the number of a low-latency operation. */
  public static final long LOW_LATENCY = 1L << 62;

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
  private static final int COMPLETED = 256;
  private static final int ABORT = 4096;
  private static final int GONE = ABORT + Long.BYTES;

  /**
   * All words. After close, a copy of them: any thread may query events at any time, and late
   * queries get the final values.
   */
  private volatile MemorySegment words;

  private final long device;
  private final Runnable free;
  private final int ranks;

  public HostWords(CudaDevice device, int ranks) {
    this(PinnedMemory.allocate(device, bytes(ranks)), ranks);
  }

  private HostWords(PinnedMemory memory, int ranks) {
    this(memory.segment(), memory.deviceAddress(), memory::close, ranks);
  }

  /**
   * @param words words of an arena that {@code free} closes, so that later reads are refused
   * @param device device address of the words
   */
  HostWords(MemorySegment words, long device, Runnable free, int ranks) {
    this.words = words;
    this.device = device;
    this.free = free;
    this.ranks = ranks;
  }

  /** Page-locked memory of a rank. */
  public static long bytes(int ranks) {
    return GONE + 2L * ranks * Long.BYTES;
  }

  private long get(long at) {
    try {
      return NativeMemory.getLongAcquire(words, at);
    } catch (IllegalStateException e) {
      // Closed between the read of the field and the load: the field now refers to the copy.
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

  public long recordOnDevice() {
    return device + STATE;
  }

  public long abortOnDevice() {
    return device + ABORT;
  }

  public long completedOnDevice() {
    return device + COMPLETED;
  }

  public long masksOnDevice() {
    return device + masked(0, ranks);
  }

  public long goneOnDevice() {
    return device + GONE;
  }

  public boolean masked(int rank) {
    return get(masked(rank, ranks)) != 0;
  }

  public void setMasked(int rank, boolean masked) {
    put(masked(rank, ranks), masked ? 1 : 0);
  }

  private static long masked(int rank, int ranks) {
    return GONE + (long) (ranks + rank) * Long.BYTES;
  }

  private static long gone(int rank, int ranks) {
    return GONE + (long) Objects.checkIndex(rank, ranks) * Long.BYTES;
  }

  /** Notifies waiting kernels that a rank is dead or has closed its buffer, and writes no more. */
  public void gone(int rank) {
    put(gone(rank, ranks), 1);
  }

  /** Takes {@link #gone} back, while no kernel runs: the rank takes part again. */
  void back(int rank) {
    put(gone(rank, ranks), 0);
  }

  public long completed() {
    return get(COMPLETED);
  }

  /**
   * 0 if there is nothing to report yet: the rank that a timeout of a high-throughput operation
   * names is final only when its kernel ends.
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

  /** Nanoseconds left to the wait when it ended; negative after the deadline. */
  long left() {
    return get(LEFT);
  }

  /** Makes waiting kernels abort. */
  public void abort() {
    put(ABORT, 1);
  }

  /** Clears a failure; no kernel runs that could write another. */
  void clearRecord() {
    put(STATE, 0);
  }

  /** Clears all words except completed. */
  public void reset() {
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
