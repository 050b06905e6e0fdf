package org.ep4j.wire.direct;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.group.Group;
import org.ep4j.wire.support.CollectiveStep;

/**
 * Exchange of segments between thread ranks: under a number, until all ranks have read them. The
 * segments stay bound to the arenas of their owners, so no rank copies into freed memory.
 */
final class ExposedSegments {
  private static final AtomicLong NUMBERS = new AtomicLong();
  private static final Map<Long, MemorySegment> OFFERED = new ConcurrentHashMap<>();

  private ExposedSegments() {}

  /** Offers this rank's segment and returns those of all ranks; collective. */
  static MemorySegment[] exchange(Group group, MemorySegment mine, Duration timeout) {
    long number = NUMBERS.incrementAndGet();
    OFFERED.put(number, mine);
    try {
      long[] numbers = CollectiveStep.numbers(group, "", number, timeout);
      MemorySegment[] all = new MemorySegment[numbers.length];
      for (int rank = 0; rank < all.length; rank++) {
        all[rank] = Objects.requireNonNull(OFFERED.get(numbers[rank]), "offered segment");
      }
      group.barrier(timeout);
      return all;
    } finally {
      OFFERED.remove(number);
    }
  }
}
