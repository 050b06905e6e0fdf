package org.ep4j.group;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;

/**
 * Program with a low limit of open files: ranks lose their rendezvous, and no descriptor is free
 * while they gather, first for a rank that follows, then for a rank that hosts. Prints what the
 * rank that follows throws, and the size of each group in the end.
 */
final class SurvivorsWithoutDescriptors {
  /** Several probes of the rank that hosts. */
  private static final Duration MOMENT = Duration.ofSeconds(1);

  private SurvivorsWithoutDescriptors() {}

  public static void main(String[] arguments) throws Exception {
    TakenDescriptors.loadClasses();
    TcpWorld world = new TcpWorld(3);
    List<Group> groups = world.joinAll();
    world.rendezvous.close();
    System.out.println(failureOfFollower(groups.get(1)));

    Future<Integer> host = survivors(groups.get(0));
    Future<Integer> follower = survivors(groups.get(1));
    Thread.sleep(MOMENT);
    try (TakenDescriptors _ = new TakenDescriptors()) {
      Thread.sleep(MOMENT);
    }
    System.out.println(survivors(groups.get(2)).get() + " survive");
    System.out.println(host.get() + " and " + follower.get());
    System.exit(0);
  }

  private static String failureOfFollower(Group group) throws IOException {
    try (TakenDescriptors _ = new TakenDescriptors()) {
      return "formed " + group.survivors(TcpWorld.LONG);
    } catch (GroupException e) {
      return e.getMessage() + (group.isAlive(0) ? "" : ", and rank 0 is gone");
    }
  }

  private static Future<Integer> survivors(Group group) {
    FutureTask<Integer> task = new FutureTask<>(() -> group.survivors(TcpWorld.LONG).size());
    Thread.ofPlatform().daemon().start(task);
    return task;
  }
}
