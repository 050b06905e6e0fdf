package org.ep4j.spark;

import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.resource.ResourceProfile;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.GroupException;
import org.jspecify.annotations.Nullable;

/**
 * Whether a cluster can run a barrier stage. Spark checks that too, and repeats its check for ten
 * minutes by default.
 */
final class ClusterCheck {
  private static final long POLL_MILLIS = 50;

  /** How long Spark waits for executors before it schedules tasks. */
  private static final String REGISTRATION = "spark.scheduler.maxRegisteredResourcesWaitingTime";

  private static final String REGISTRATION_DEFAULT = "30s";

  private ClusterCheck() {}

  /** Requires that all partitions can be tasks at the same time. */
  static void require(JavaRDD<?> rows) {
    SparkContext spark = rows.context();
    if (!spark.isLocal() && spark.conf().getBoolean("spark.dynamicAllocation.enabled", false)) {
      throw new IllegalUseException(
          ErrorCode.SPARK_DYNAMIC_ALLOCATION,
          "spark.dynamicAllocation.enabled = true, and barrier stages need executors that stay: set"
              + " it to false, and spark.executor.instances to a number that runs all ranks");
    }
    int ranks = rows.getNumPartitions();
    long wait = spark.isLocal() ? 0 : spark.conf().getTimeAsMs(REGISTRATION, REGISTRATION_DEFAULT);
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(wait);
    ResourceProfile profile = profile(rows);
    int slots = spark.maxNumConcurrentTasks(profile);
    while (slots < ranks && System.nanoTime() - end < 0) {
      pause();
      slots = spark.maxNumConcurrentTasks(profile);
    }
    if (slots < ranks) {
      throw new InvalidArgumentException(
          ErrorCode.SPARK_SLOTS,
          "ranks",
          Integer.toString(ranks),
          "at most %d, the slots of %s with spark.task.cpus = %s%s"
              .formatted(
                  slots,
                  spark.master(),
                  spark.conf().get("spark.task.cpus", "1"),
                  wait == 0 ? "" : " after " + REGISTRATION + " = " + wait + " ms"),
          "add executors or cores, or use fewer ranks");
    }
  }

  private static ResourceProfile profile(JavaRDD<?> rows) {
    @Nullable ResourceProfile own = rows.getResourceProfile();
    return own == null ? rows.context().resourceProfileManager().defaultResourceProfile() : own;
  }

  private static void pause() {
    try {
      Thread.sleep(POLL_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new GroupException(
          ErrorCode.GROUP_INTERRUPTED, "interrupted while waiting for executors", e);
    }
  }

  /** What a failed job means, if Spark's message does not say what to do; otherwise itself. */
  static Exception explained(Exception failure) {
    if (!String.valueOf(failure.getMessage()).contains("UnsupportedClassVersionError")) {
      return failure;
    }
    IllegalUseException explained =
        new IllegalUseException(
            ErrorCode.SPARK_JVM,
            "the JVM of the executors is too old for classes of ep4j or of the job: set JAVA_HOME"
                + " on the workers, or spark.executorEnv.JAVA_HOME, to a JDK 25 or newer");
    explained.initCause(failure);
    return explained;
  }
}
