package org.ep4j.engine.host.buffer;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Arrays;
import org.ep4j.group.Group;

/**
 * Counts the bytes that a thread allocates in windows of calls. Early windows allocate until C2 has
 * compiled the calls; later ones may, because the JVM attributes allocations of its own work (class
 * loading, a late compilation) to the thread that causes it. One window without an allocation is
 * therefore enough.
 */
public final class AllocationWindows {
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  /** C2 has one thread on two cores, and may have long compilations to do first. */
  private static final Duration LONGEST = Duration.ofSeconds(60);

  private static final byte ALLOCATES = 0;
  private static final byte WARM = 1;
  private static final byte TIME_IS_UP = 2;
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  private AllocationWindows() {}

  /**
   * Smallest number of bytes that a window allocates in this thread. Collective: all ranks run the
   * same number of windows, until each rank has had one without an allocation or a minute is over.
   */
  public static long least(Group group, Runnable window) {
    long start = System.nanoTime();
    long least = Long.MAX_VALUE;
    boolean ends = false;
    while (!ends) {
      long before = THREADS.getCurrentThreadAllocatedBytes();
      window.run();
      least = Math.min(least, THREADS.getCurrentThreadAllocatedBytes() - before);
      boolean late = System.nanoTime() - start > LONGEST.toNanos();
      byte[] vote = {least == 0 ? WARM : late ? TIME_IS_UP : ALLOCATES};
      byte[][] votes = group.allGather(vote, TIMEOUT);
      ends =
          Arrays.stream(votes).allMatch(one -> one[0] == WARM)
              || Arrays.stream(votes).anyMatch(one -> one[0] == TIME_IS_UP);
    }
    return least;
  }
}
