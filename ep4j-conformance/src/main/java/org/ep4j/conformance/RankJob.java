package org.ep4j.conformance;

import java.util.List;
import org.ep4j.group.Group;

/**
 * What every rank of a {@link World} does. Jobs run on threads and in processes alike, so a job is
 * a class with a constructor without arguments, and everything else comes in as text.
 */
@FunctionalInterface
public interface RankJob {
  /**
   * Runs as one rank; throws if anything is wrong.
   *
   * @param group closed by the caller
   */
  void run(Group group, List<String> arguments) throws Exception;
}
