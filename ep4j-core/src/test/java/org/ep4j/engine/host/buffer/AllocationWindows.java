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
  private static final int MAX_WINDOWS = 120;
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  private AllocationWindows() {}

  /**
   * Smallest number of bytes that a window allocates in this thread. Collective: all ranks run the
   * same number of windows, until each rank has had one without an allocation.
   */
  public static long least(Group group, Runnable window) {
    long least = Long.MAX_VALUE;
    boolean everyRankIsWarm = false;
    for (int i = 0; i < MAX_WINDOWS && !everyRankIsWarm; i++) {
      long before = THREADS.getCurrentThreadAllocatedBytes();
      window.run();
      least = Math.min(least, THREADS.getCurrentThreadAllocatedBytes() - before);
      byte[] vote = {(byte) (least == 0 ? 1 : 0)};
      everyRankIsWarm = Arrays.stream(group.allGather(vote, TIMEOUT)).allMatch(one -> one[0] == 1);
    }
    return least;
  }
}
