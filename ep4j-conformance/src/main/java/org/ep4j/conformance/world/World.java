package org.ep4j.conformance.world;

import java.lang.reflect.Constructor;
import java.util.List;

/** Runs ranks: as threads of this JVM, or as processes. */
public interface World {
  /** For test names. */
  String name();

  /** Whether starting ranks is so slow that tests should do all their work in one run. */
  boolean costly();

  /**
   * Runs a job on {@code ranks} ranks and waits for all.
   *
   * @throws RuntimeException if a rank failed, with its report
   */
  void run(int ranks, Class<? extends RankJob> job, List<String> arguments);

  /** Creates a job, which may be visible in its package only. */
  static RankJob create(Class<? extends RankJob> job) {
    try {
      Constructor<? extends RankJob> constructor = job.getDeclaredConstructor();
      constructor.setAccessible(true);
      return constructor.newInstance();
    } catch (ReflectiveOperationException e) {
      throw new IllegalArgumentException(
          job.getName() + " needs a constructor without arguments that can be called", e);
    }
  }
}
