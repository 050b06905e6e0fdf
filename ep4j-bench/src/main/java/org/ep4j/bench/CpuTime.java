package org.ep4j.bench;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.time.Duration;

/**
 * CPU time of the threads of this JVM in nanoseconds.
 *
 * @param proxies of the proxy threads
 * @param process of all threads, including ended threads and those of the JVM
 */
public record CpuTime(long proxies, long process) {
  private static final String PROXY = "ep4j-proxy-";

  public static CpuTime now() {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long proxies = 0;
    for (ThreadInfo thread : threads.getThreadInfo(threads.getAllThreadIds())) {
      if (thread != null && thread.getThreadName().startsWith(PROXY)) {
        // -1 for a thread that has ended.
        proxies += Math.max(0, threads.getThreadCpuTime(thread.getThreadId()));
      }
    }
    Duration process = ProcessHandle.current().info().totalCpuDuration().orElse(Duration.ZERO);
    return new CpuTime(proxies, process.toNanos());
  }

  public CpuTime since(CpuTime before) {
    return new CpuTime(proxies - before.proxies, process - before.process);
  }

  /** Time of all other threads. The clocks of the two fields differ slightly, hence the maximum. */
  public long others() {
    return Math.max(0, process - proxies);
  }
}
