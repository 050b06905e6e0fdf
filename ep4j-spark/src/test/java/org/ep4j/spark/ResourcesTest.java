package org.ep4j.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.util.List;
import java.util.Objects;
import org.apache.spark.SparkException;
import org.apache.spark.api.java.JavaSparkContext;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/** Clusters that cannot run the ranks, and ranks that are threads of one JVM. */
@EnabledIfSystemProperty(
    named = "ep4j.full",
    matches = "true",
    disabledReason = "starts six contexts; -Dep4j.full=true runs it")
class ResourcesTest {
  @Test
  void ranksAreThreadsOfALocalMaster() {
    try (var spark = new JavaSparkContext(Cluster.threads(2))) {
      List<float[]> sums = SparkRanks.call(spark, 2, group -> Step.run(group, 0));
      assertThat(sums.toArray(float[][]::new)).isDeepEqualTo(Step.expected(2));
    }
  }

  @Test
  void moreRanksThanSlotsAreRefused() {
    try (var spark = new JavaSparkContext(Cluster.threads(5).set("spark.task.cpus", "2"))) {
      assertThat(SparkRanks.call(spark, 2, group -> group.rank())).containsExactly(0, 1);
      assertRefused(
          spark,
          ErrorCode.SPARK_SLOTS,
          3,
          "ranks = 3; it must be at most 2, the slots of local[5] with spark.task.cpus = 2");
      assertRefused(spark, ErrorCode.GROUP_SIZE, 0, "ranks = 0");
      assertThatThrownBy(
              () ->
                  SparkRanks.mapPartitions(
                      spark.parallelize(List.of(1, 2, 3), 3), (g, rows) -> rows))
          .hasMessageContaining("EP4J-1071");
    }
  }

  /** Workers of two cores start no executor of four. */
  @Test
  void executorsThatFitNoWorkerAreReported() throws IOException {
    try (var spark =
        new JavaSparkContext(
            Cluster.of(1, 2)
                .set("spark.executor.cores", "4")
                .set("spark.scheduler.maxRegisteredResourcesWaitingTime", "1s"))) {
      assertRefused(
          spark, ErrorCode.SPARK_SLOTS, 2, "at most 0, the slots of local-cluster[1,2,512]");
    }
  }

  @Test
  void dynamicAllocationIsRefused() throws IOException {
    try (var spark =
        new JavaSparkContext(
            Cluster.of(1, 1)
                .set("spark.dynamicAllocation.enabled", "true")
                .set("spark.dynamicAllocation.shuffleTracking.enabled", "true"))) {
      assertThatThrownBy(() -> SparkRanks.call(spark, 1, group -> group.rank()))
          .isInstanceOfSatisfying(
              IllegalUseException.class,
              e -> assertThat(e.errorCode()).isEqualTo(ErrorCode.SPARK_DYNAMIC_ALLOCATION))
          .hasMessageContaining("spark.dynamicAllocation.enabled");
    }
  }

  @Test
  void anOldJvmIsReported() throws IOException {
    String old = Objects.requireNonNull(System.getProperty("ep4j.mavenJavaHome"));
    assumeTrue(!old.equals(System.getProperty("java.home")), "Maven runs on the JVM of the tests");
    try (var spark =
        new JavaSparkContext(
            Cluster.of(1, 1)
                .set("spark.executorEnv.JAVA_HOME", old)
                .set("spark.executor.extraJavaOptions", ""))) {
      assertThatThrownBy(() -> SparkRanks.call(spark, 1, group -> group.rank()))
          .isInstanceOfSatisfying(
              IllegalUseException.class,
              e -> assertThat(e.errorCode()).isEqualTo(ErrorCode.SPARK_JVM))
          .hasMessageContaining("spark.executorEnv.JAVA_HOME")
          .hasRootCauseInstanceOf(SparkException.class);
    }
  }

  @Test
  void codeOutsideOfABarrierStageHasNoGroup() {
    assertThatThrownBy(SparkRanks::group).hasMessageContaining("EP4J-1070", "no task");
    try (var spark = new JavaSparkContext(Cluster.threads(1))) {
      assertThatThrownBy(
              () -> spark.parallelize(List.of(1), 1).map(i -> SparkRanks.group().rank()).collect())
          .hasMessageContaining("EP4J-1070", "is no barrier stage");
    }
  }

  private static void assertRefused(
      JavaSparkContext spark, ErrorCode code, int ranks, String text) {
    assertThatThrownBy(() -> SparkRanks.call(spark, ranks, group -> group.rank()))
        .isInstanceOfSatisfying(
            InvalidArgumentException.class, e -> assertThat(e.errorCode()).isEqualTo(code))
        .hasMessageContaining(text);
  }
}
