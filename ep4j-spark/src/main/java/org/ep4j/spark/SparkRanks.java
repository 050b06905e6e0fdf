package org.ep4j.spark;

import java.io.Serializable;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.jspecify.annotations.Nullable;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Runs ranks as tasks of a barrier stage: a rank for each partition, with the same number. Ranks
 * are tasks of one executor or of several, on one host or on several.
 *
 * <p>A group belongs to its task. It is closed when the task has ended. If the task fails, its rank
 * fails with the exception as the reason. The waits of the other ranks end in {@link
 * org.ep4j.group.PeerLostException}, those in operations of a buffer in {@link
 * org.ep4j.error.PeerTimeoutException}. A repeated stage forms a new group.
 */
public final class SparkRanks {
  /** Whether Spark interrupts the threads of tasks that it cancels; by default it does not. */
  private static final String INTERRUPT = "spark.job.interruptOnCancel";

  /** The code of a rank. */
  @FunctionalInterface
  public interface RankFunction<R extends @Nullable Object> extends Serializable {
    /**
     * Runs in a task.
     *
     * @return the result, which Spark serializes
     */
    R call(Group group) throws Exception;
  }

  /** The code of a rank that computes the results of a partition. */
  @FunctionalInterface
  public interface PartitionFunction<T, R> extends Serializable {
    /**
     * Runs in a task; the group lives until the iterator has no more elements.
     *
     * @param rows elements of the partition
     */
    Iterator<R> call(Group group, Iterator<T> rows) throws Exception;
  }

  /** A function of Scala that Spark can send. */
  @FunctionalInterface
  private interface ScalaFunction<T, R> extends scala.Function1<T, R>, Serializable {}

  private SparkRanks() {}

  /**
   * Calls the function once per rank, and waits for all. While it runs, Spark interrupts tasks that
   * it cancels.
   *
   * @return the results in rank order
   * @throws InvalidArgumentException if the cluster cannot run the ranks at one time, or {@code
   *     ranks} is out of range
   * @throws IllegalUseException if the executors run on a JVM that is too old, or Spark allocates
   *     them dynamically
   */
  public static <R extends @Nullable Object> List<R> call(
      JavaSparkContext spark, int ranks, RankFunction<R> function) {
    if (ranks < 1 || ranks > GroupConfig.MAX_RANKS) {
      throw new InvalidArgumentException(
          ErrorCode.GROUP_SIZE,
          "ranks",
          Integer.toString(ranks),
          "from 1 to " + GroupConfig.MAX_RANKS,
          "pass the number of tasks");
    }
    List<Integer> numbers = IntStream.range(0, ranks).boxed().toList();
    JavaRDD<R> results =
        mapPartitions(
            spark.parallelize(numbers, ranks),
            (group, rows) -> Collections.singleton(function.call(group)).iterator());
    String before = spark.getLocalProperty(INTERRUPT);
    spark.setLocalProperty(INTERRUPT, "true");
    try {
      return results.collect();
    } catch (Exception e) { // of Scala, which declares none
      throw SparkRanks.<RuntimeException>unchecked(ClusterCheck.explained(e));
    } finally {
      spark.setLocalProperty(INTERRUPT, before);
    }
  }

  /**
   * A barrier stage that calls the function once per partition. As every transformation it runs
   * with the job of an action. Spark repeats a failed stage if a shuffle follows it, and otherwise
   * ends the job.
   *
   * @throws InvalidArgumentException if the cluster cannot run the ranks at one time
   * @throws IllegalUseException if Spark allocates executors dynamically
   */
  public static <T, R extends @Nullable Object> JavaRDD<R> mapPartitions(
      JavaRDD<T> rows, PartitionFunction<T, R> function) {
    ClusterCheck.require(rows);
    ScalaFunction<scala.collection.Iterator<T>, scala.collection.Iterator<R>> body =
        partition -> {
          try {
            Group group = group();
            return CollectionConverters.asScala(
                function.call(group, CollectionConverters.asJava(partition)));
          } catch (Exception e) {
            throw SparkRanks.<RuntimeException>unchecked(e);
          }
        };
    @SuppressWarnings("unchecked") // as in Spark's Java API, whose elements are objects
    ClassTag<R> elements = (ClassTag<R>) ClassTag$.MODULE$.AnyRef();
    return new JavaRDD<>(rows.rdd().barrier().mapPartitions(body, false, elements), elements);
  }

  /**
   * The group of the ranks of this stage, for code in a task of a barrier stage; collective.
   * Another call forms another group.
   *
   * @throws IllegalUseException outside of such a task
   */
  public static Group group() {
    TaskContext task = TaskContext.get();
    if (task instanceof BarrierTaskContext barrier) {
      return TaskGroup.join(barrier);
    }
    throw new IllegalUseException(
        ErrorCode.SPARK_NO_BARRIER_STAGE,
        (task == null
                ? "this thread runs no task"
                : "stage " + task.stageId() + " is no barrier stage")
            + ": call SparkRanks.group in code that SparkRanks.call or mapPartitions runs");
  }

  /** Scala's functions declare no exceptions: Spark reports the exception itself. */
  @SuppressWarnings("unchecked")
  private static <E extends Exception> RuntimeException unchecked(Exception e) throws E {
    throw (E) e;
  }
}
