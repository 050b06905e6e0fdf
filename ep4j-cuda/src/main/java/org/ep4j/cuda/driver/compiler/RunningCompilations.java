package org.ep4j.cuda.driver.compiler;

import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.ep4j.cuda.driver.calls.CudaException;

/**
 * Uses of NVRTC and nvJitLink in progress. The end of a Java process waits for them: the libraries
 * free their state in exit handlers, and a thread that is still inside would crash the process. A
 * process that has started the JVM without its signal handlers (Python, C) runs no such hook.
 */
public final class RunningCompilations {
  /** Afterwards the process ends anyway. */
  private static final long LIMIT = TimeUnit.SECONDS.toNanos(30);

  private static int running;
  private static boolean ending;

  static {
    try {
      Runtime.getRuntime()
          .addShutdownHook(new Thread(RunningCompilations::awaitEnd, "ep4j-compilations"));
    } catch (IllegalStateException e) {
      ending = true; // the first use is one at the end
    }
  }

  private RunningCompilations() {}

  /**
   * Runs what uses a library; refuses it once the process is ending.
   *
   * @param call its name in the error
   */
  public static <T> T run(String call, Supplier<T> work) {
    begin(call);
    try {
      return work.get();
    } finally {
      end();
    }
  }

  private static synchronized void begin(String call) {
    if (ending) {
      throw new CudaException(call, 0, "the process is ending");
    }
    running++;
  }

  private static synchronized void end() {
    running--;
    RunningCompilations.class.notifyAll();
  }

  private static synchronized void awaitEnd() {
    ending = true;
    long deadline = System.nanoTime() + LIMIT;
    try {
      for (long left = LIMIT; running > 0 && left > 0; left = deadline - System.nanoTime()) {
        TimeUnit.NANOSECONDS.timedWait(RunningCompilations.class, left);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
