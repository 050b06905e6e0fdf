package org.ep4j.conformance.world;

import java.util.List;
import org.ep4j.group.Group;

/**
 * Work of every rank of a {@link World}. Jobs run on threads and in processes, so a job is a class
 * with a constructor without arguments, and all inputs are text.
 */
@FunctionalInterface
public interface RankJob {
  /**
   * Runs as one rank; throws on a failure.
   *
   * @param group closed by the caller
   */
  void run(Group group, List<String> arguments) throws Exception;
}
