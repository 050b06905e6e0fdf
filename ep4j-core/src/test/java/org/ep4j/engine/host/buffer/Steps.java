package org.ep4j.engine.host.buffer;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;

/** Steps of the ranks of a test, each rank on its own thread. */
final class Steps {
  private static final int LIMIT_SECONDS = 60;

  private Steps() {}

  /** A step of a rank. */
  interface Step {
    void run(int rank) throws Exception;
  }

  static FutureTask<Boolean> start(int rank, Step step) {
    FutureTask<Boolean> task =
        new FutureTask<>(
            () -> {
              step.run(rank);
              return true;
            });
    Thread.ofPlatform().daemon().start(task);
    return task;
  }

  static void await(FutureTask<Boolean> task) throws Exception {
    try {
      task.get(LIMIT_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException e) {
      throw new AssertionError("a rank failed: " + e.getCause(), e.getCause());
    }
  }

  /** Runs the same step on several ranks at once, until all have finished it. */
  static void on(Step step, int... ranks) throws Exception {
    List<FutureTask<Boolean>> tasks = new ArrayList<>();
    for (int rank : ranks) {
      tasks.add(start(rank, step));
    }
    for (FutureTask<Boolean> task : tasks) {
      await(task);
    }
  }
}
