package org.ep4j.conformance;

import java.util.List;

/** A way to run ranks: threads of this JVM, or processes. */
public interface World {
  /** For test names. */
  String name();

  /** Whether starting ranks takes so long that tests should do all their work in one run. */
  boolean costly();

  /**
   * Runs a job on {@code ranks} ranks and waits for all.
   *
   * @throws RuntimeException if a rank failed, with what it reported
   */
  void run(int ranks, Class<? extends RankJob> job, List<String> arguments);

  /** Creates a job. */
  static RankJob create(Class<? extends RankJob> job) {
    try {
      return job.getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException e) {
      throw new IllegalArgumentException(
          job.getName() + " needs a constructor without arguments that can be called", e);
    }
  }
}
