package org.ep4j.memory;

import java.lang.foreign.MemorySegment;

/**
 * Cache-bypassing copies of one thread: each reads a row once and writes it to one or more places.
 * {@link StreamingStores} explains the reasons and the fence that must follow.
 *
 * <p>{@link #places} begins with prefetch places, followed by places to copy to. A copy also
 * prefetches as many bytes as it copies, {@link #AHEAD} bytes behind each prefetch place: data that
 * the caller reads soon is then in the cache. Prefetching is a hint; it has no effect where no
 * memory is mapped.
 */
public final class NonTemporalCopy {
  /** Distance of the prefetch from its place, in bytes. */
  public static final int AHEAD = StreamingStores.AHEAD;

  /** Multiples of this address can be written around the cache. */
  public static final int ALIGNMENT = StreamingStores.ALIGNMENT;

  /** Maximum bytes of one native call: the JVM cannot reach a safepoint during the call. */
  private static final long PIECE = 64 << 10;

  /** Addresses of the next copy; the caller writes them. */
  public final long[] places;

  /** The same addresses for the native function. */
  private final MemorySegment list;

  private final boolean streaming;

  /**
   * A stream that bypasses the cache if {@link StreamingStores#available}.
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
   * Copies {@code bytes} bytes to each of the places behind the first {@code fetches}, and advances
   * all places by as many bytes. The ranges overlap neither each other nor the source. Any address
   * and length is allowed, but only whole {@value StreamingStores#STEP} bytes to places that are
   * all multiples of {@value #ALIGNMENT} bypass the cache.
   *
   * @param fetches number of places to prefetch from
   * @param copies number of places to copy to
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

  /** Whether there are places from {@code from} to {@code end}, all of them aligned. */
  private boolean aligned(int from, int end) {
    long bits = from < end ? 0 : 1;
    for (int i = from; i < end; i++) {
      bits |= places[i];
    }
    return (bits & (StreamingStores.ALIGNMENT - 1)) == 0;
  }
}
