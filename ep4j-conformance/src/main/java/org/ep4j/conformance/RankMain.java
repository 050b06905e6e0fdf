package org.ep4j.conformance;

import java.util.Arrays;
import java.util.List;
import org.ep4j.group.Group;

/** A rank in a process of its own: {@code RankMain <job class> <argument>...}. */
public final class RankMain {
  private RankMain() {}

  /** Joins the group of the environment and runs the job. */
  public static void main(String[] args) {
    List<String> all = Arrays.asList(args);
    try (Group group = Group.fromEnvironment()) {
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
