package org.ep4j.conformance.world;

import java.util.Arrays;
import java.util.List;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.LaunchEnvironment;

/**
 * A rank in its own process: {@code RankMain <job class> <argument>...}. With the variable {@link
 * #AGAIN} the process replaces one that has ended.
 */
public final class RankMain {
  /** Set in processes that replace others. */
  public static final String AGAIN = "EP4J_TEST_AGAIN";

  private RankMain() {}

  private static Group join() {
    GroupConfig config = LaunchEnvironment.of(System.getenv()).config();
    return System.getenv(AGAIN) == null || config == null
        ? Group.fromEnvironment()
        : Group.rejoin(config);
  }

  /** Joins the group of the environment and runs the job. */
  public static void main(String[] args) {
    List<String> all = Arrays.asList(args);
    try (Group group = join()) {
      try {
        RankJob job = World.create(Class.forName(all.getFirst()).asSubclass(RankJob.class));
        job.run(group, all.subList(1, all.size()));
      } catch (Throwable t) {
        t.printStackTrace();
        System.err.flush();
        group.fail(t.toString());
        Runtime.getRuntime().halt(1);
      }
    } catch (Throwable t) {
      t.printStackTrace();
      System.err.flush();
      Runtime.getRuntime().halt(1);
    }
  }
}
