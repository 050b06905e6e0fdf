package org.ep4j.cli.bench;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.time.Duration;

/**
 * Time that threads of this JVM have spent on cores, in nanoseconds.
 *
 * @param proxies of the threads of proxies
 * @param process of all threads, those of the JVM and those that ended among them
 */
record CpuTime(long proxies, long process) {
  private static final String PROXY = "ep4j-proxy-";

  static CpuTime now() {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long proxies = 0;
    for (ThreadInfo thread : threads.getThreadInfo(threads.getAllThreadIds())) {
      if (thread != null && thread.getThreadName().startsWith(PROXY)) {
        // -1 if it has ended since.
        proxies += Math.max(0, threads.getThreadCpuTime(thread.getThreadId()));
      }
    }
    Duration process = ProcessHandle.current().info().totalCpuDuration().orElse(Duration.ZERO);
    return new CpuTime(proxies, process.toNanos());
  }

  CpuTime since(CpuTime before) {
    return new CpuTime(proxies - before.proxies, process - before.process);
  }

  /** All threads but the proxies'. Clocks of the two differ a little. */
  long others() {
    return Math.max(0, process - proxies);
  }
}
