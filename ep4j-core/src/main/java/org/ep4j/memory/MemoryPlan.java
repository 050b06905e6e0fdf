package org.ep4j.memory;

import java.util.List;

/**
 * Sizes of the {@link SymmetricMemory} of a rank; the same on all ranks.
 *
 * @param bytes bytes per rank
 * @param likelyBytes the part of {@code bytes} that ordinary use touches; memory is not allocated
 *     if that much is not free
 * @param present ranges that have memory from the beginning: words with which the ranks coordinate,
 *     so that ranks can still report and recover when no more memory is free
 */
public record MemoryPlan(long bytes, long likelyBytes, List<Range> present) {
  /**
   * Some bytes of a rank.
   *
   * @param start offset of the first byte
   * @param end offset behind the last byte
   */
  public record Range(long start, long end) {}

  /** Copies the list. */
  public MemoryPlan {
    present = List.copyOf(present);
  }

  /** Memory that is used as a whole. */
  public static MemoryPlan whole(long bytes) {
    return new MemoryPlan(bytes, bytes, List.of(new Range(0, bytes)));
  }
}
