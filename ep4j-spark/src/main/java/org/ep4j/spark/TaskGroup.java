package org.ep4j.spark;

import java.security.SecureRandom;
import java.time.Duration;
import java.util.HexFormat;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.TaskFailureListener;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.rendezvous.Rendezvous;
import org.jspecify.annotations.Nullable;

/**
 * The group of a task, from its start to its end.
 *
 * <p>The task of rank 0 hosts the rendezvous, at the address by which the driver knows its
 * executor. Its port and its secret reach the other tasks by an allGather of Spark. That task ends
 * last, because the others need the rendezvous.
 */
final class TaskGroup implements TaskFailureListener, TaskCompletionListener {
  private static final SecureRandom RANDOM = new SecureRandom();
  private static final int SECRET_BYTES = 16;
  private static final Duration POLL = Duration.ofMillis(100);

  /** The default is that of ep4j: the heap of an executor may need more. */
  private static final String LIVENESS = "spark.ep4j.livenessTimeout";

  private final GroupConfig config;
  private final Group group;
  private final @Nullable Rendezvous hosted;
  private volatile boolean failed;

  private TaskGroup(GroupConfig config, Group group, @Nullable Rendezvous hosted) {
    this.config = config;
    this.group = group;
    this.hosted = hosted;
  }

  /** Joins; collective among the tasks of the stage. */
  static Group join(BarrierTaskContext task) {
    GroupConfig config = config(task);
    Rendezvous hosted = config.rank() == 0 ? Rendezvous.open(config) : null;
    boolean joined = false;
    try {
      String mine = hosted == null ? "" : hosted.address().getPort() + " " + config.secret();
      String[] portAndSecret = task.allGather(mine)[0].split(" ");
      GroupConfig complete =
          config.toBuilder()
              .rendezvous(config.host(), Integer.parseInt(portAndSecret[0]))
              .secret(portAndSecret[1])
              .build();
      Group group = Group.join(complete);
      joined = true;
      TaskGroup listener = new TaskGroup(complete, group, hosted);
      task.addTaskFailureListener(listener).addTaskCompletionListener(listener);
      return group;
    } finally {
      if (!joined && hosted != null) {
        hosted.close();
      }
    }
  }

  /** All but the port; the secret is that of rank 0 if this is rank 0. */
  private static GroupConfig config(BarrierTaskContext task) {
    SparkConf spark = SparkEnv.get().conf();
    String executor = task.getTaskInfos()[0].address();
    String host = executor.substring(0, executor.lastIndexOf(':'));
    byte[] secret = new byte[SECRET_BYTES];
    RANDOM.nextBytes(secret);
    return GroupConfig.builder()
        .rank(task.partitionId())
        .size(task.getTaskInfos().length)
        .rendezvous(host, 0)
        .hostsRendezvous(false)
        .secret(HexFormat.of().formatHex(secret))
        .job(
            "%s, stage %d, attempt %d"
                .formatted(spark.getAppId(), task.stageId(), task.stageAttemptNumber()))
        .livenessTimeout(
            Duration.ofMillis(
                spark.getTimeAsMs(LIVENESS, GroupConfig.LIVENESS_TIMEOUT.toMillis() + "ms")))
        .build();
  }

  /** Runs before {@link #onTaskCompletion}. */
  @Override
  public void onTaskFailure(TaskContext task, Throwable error) {
    failed = true;
    group.fail(error.toString());
  }

  @Override
  public void onTaskCompletion(TaskContext task) {
    group.close();
    if (hosted != null) {
      // Of a task that is cancelled: the other ranks still get the reason of its failure.
      boolean interrupted = Thread.interrupted();
      boolean ended = hosted.awaitEnd(POLL);
      while (!ended && !failed && !task.isInterrupted()) {
        ended = hosted.awaitEnd(POLL);
      }
      if (!ended) {
        hosted.awaitEnd(config.livenessTimeout());
      }
      hosted.close();
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
