package org.ep4j.spark;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.TreeSet;
import org.apache.spark.SparkException;
import org.apache.spark.api.java.JavaSparkContext;
import org.ep4j.group.GroupException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** An executor for each rank. */
class ExecutorsTest {
  private static final int EXECUTORS = 4;

  /** Ends no wait of a test that passes: JUnit's limit ends it first. */
  private static final Duration LONG = Duration.ofHours(1);

  private static JavaSparkContext spark;

  @TempDir Path directory;

  @BeforeAll
  static void start() throws IOException {
    assumeTrue(Boolean.getBoolean("ep4j.full"), "starts six JVMs; -Dep4j.full=true runs it");
    spark = new JavaSparkContext(Cluster.of(EXECUTORS, 1));
  }

  @AfterAll
  static void stop() {
    if (spark != null) {
      spark.close();
    }
  }

  @Test
  void aStepOverFourExecutorsEqualsTheReference() {
    List<Long> processes =
        SparkRanks.call(spark, EXECUTORS, group -> ProcessHandle.current().pid());
    assertThat(new TreeSet<>(processes)).hasSize(EXECUTORS);
    List<float[]> sums = SparkRanks.call(spark, EXECUTORS, group -> Step.run(group, 0));
    assertThat(sums.toArray(float[][]::new)).isDeepEqualTo(Step.expected(EXECUTORS));
  }

  /**
   * Even the task that hosts the rendezvous. The group notices the end, or Spark, which then
   * cancels the other task: the first of both ends its wait.
   */
  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  @Timeout(120)
  void theEndOfAnExecutorEndsTheOthers(int victim) throws Exception {
    String path = directory.toString();
    assertThatThrownBy(
            () ->
                SparkRanks.call(
                    spark,
                    2,
                    group -> {
                      try {
                        group.barrier(LONG);
                        if (group.rank() == victim) {
                          Runtime.getRuntime().halt(9);
                        }
                        group.barrier(LONG);
                        return "no error";
                      } catch (GroupException e) {
                        report(path, e.toString());
                        throw e;
                      }
                    }))
        .isInstanceOf(SparkException.class);
    // The driver does not wait for the task that it cancels.
    Path report = directory.resolve("other");
    while (Files.notExists(report)) {
      Thread.sleep(20);
    }
    assertThat(Files.readString(report)).contains("EP4J-");
  }

  /** Complete when it exists. A channel would fail in a thread that Spark interrupts. */
  private static void report(String path, String message) throws IOException {
    Path part = Path.of(path, "part");
    try (var file = new FileOutputStream(part.toFile())) {
      file.write(message.getBytes(UTF_8));
    }
    Files.move(part, Path.of(path, "other"));
  }
}
