package org.ep4j.cuda.driver.compiler;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A program that ends while a daemon thread is inside a library. */
final class CompilationAtExit {
  private CompilationAtExit() {}

  @SuppressWarnings("SystemExitOutsideMain") // ends the process, as a signal does
  public static void main(String... arguments) throws InterruptedException {
    var begun = new CountDownLatch(1);
    Thread.ofPlatform()
        .daemon()
        .start(
            () ->
                RunningCompilations.run(
                    "compile",
                    () -> {
                      begun.countDown();
                      pause();
                      System.out.println("compiled");
                      return 0;
                    }));
    begun.await();
    System.exit(0);
  }

  private static void pause() {
    try {
      TimeUnit.MILLISECONDS.sleep(500);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
