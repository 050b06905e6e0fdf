package org.ep4j.memory;

import java.lang.foreign.MemorySegment;

/**
 * One thread's copies that go around the cache: each reads a row once and writes it to one or more
 * places. {@link StreamingStores} has the reasons, and the fence that has to follow.
 *
 * <p>{@link #places} begins with places to fetch from and goes on with places to copy to. While a
 * copy runs, as many bytes as it copies are fetched into the cache from {@link #AHEAD} bytes behind
 * each of the former: what the caller will read soon is there when it does. Fetching is a wish;
 * where no memory is, nothing happens.
 */
public final class NonTemporalCopy {
  /** Distance of what is fetched from the place given. */
  public static final int AHEAD = StreamingStores.AHEAD;

  /** Places that are multiples of this can be reached around the cache. */
  public static final int ALIGNMENT = StreamingStores.ALIGNMENT;

  /** Longest piece of one native call: while it runs the JVM cannot reach a safepoint. */
  private static final long PIECE = 64 << 10;

  /** Addresses; the caller fills in those of the next copy. */
  public final long[] places;

  /** The same for the native function. */
  private final MemorySegment list;

  private final boolean streaming;

  /**
   * A stream that goes around the cache where {@link StreamingStores#available} says so.
   *
   * @param max number of {@link #places}
   */
  public NonTemporalCopy(int max) {
    this(max, StreamingStores.available());
  }

  NonTemporalCopy(int max, boolean streaming) {
    places = new long[max];
    list = MemorySegment.ofArray(places);
    this.streaming = streaming;
  }

  /**
   * Copies {@code bytes} bytes to each of the places behind the first {@code fetches}, and moves
   * all places on by as many bytes. The ranges overlap neither each other nor the source. Any
   * address and length will do, but only whole {@value StreamingStores#STEP} bytes to places that
   * are all multiples of {@value #ALIGNMENT} go around the cache.
   *
   * @param fetches places to fetch from
   * @param copies places to copy to
   */
  public void copy(long source, long bytes, int fetches, int copies) {
    int end = fetches + copies;
    for (long done = 0, piece; done < bytes; done += piece) {
      piece = Math.min(bytes - done, PIECE);
      long streamed = streaming && aligned(fetches, end) ? piece & -StreamingStores.STEP : 0;
      if (streamed != 0) {
        StreamingStores.copy(source + done, streamed, list, fetches, copies);
      }
      for (int i = fetches; streamed != piece && i < end; i++) {
        NativeMemory.copy(source + done + streamed, places[i] + streamed, piece - streamed);
      }
      for (int i = 0; i < end; i++) {
        places[i] += piece;
      }
    }
  }

  /** Whether there are places from {@code from} on, all of them aligned. */
  private boolean aligned(int from, int end) {
    long bits = from < end ? 0 : 1;
    for (int i = from; i < end; i++) {
      bits |= places[i];
    }
    return (bits & (StreamingStores.ALIGNMENT - 1)) == 0;
  }
}
