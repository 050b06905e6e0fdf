package org.ep4j.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.spark.SparkException;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.ep4j.group.GroupException;
import org.ep4j.group.PeerLostException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Ranks over two executors, which are processes of two cores. */
@EnabledIfSystemProperty(
    named = "ep4j.full",
    matches = "true",
    disabledReason = "20 s; MoeStepTest also runs on executors; -Dep4j.full=true runs it")
class SparkRanksTest {
  /** Ends no wait of a test that passes: JUnit's limit ends it first. */
  private static final Duration LONG = Duration.ofHours(1);

  private static JavaSparkContext spark;

  @TempDir Path directory;

  @BeforeAll
  static void start() throws IOException {
    spark = new JavaSparkContext(Cluster.of(2, 2));
  }

  @AfterAll
  static void stop() {
    spark.close();
  }

  @ParameterizedTest
  @CsvSource({"2, 0", "4, 0", "4, 1"})
  void aStepOverExecutorsEqualsTheReference(int ranks, int ranksPerNode) {
    List<float[]> sums = SparkRanks.call(spark, ranks, group -> Step.run(group, ranksPerNode));
    assertThat(sums.toArray(float[][]::new)).isDeepEqualTo(Step.expected(ranks));
  }

  @Test
  void fourRanksAreInBothExecutors() {
    List<Long> processes = SparkRanks.call(spark, 4, group -> ProcessHandle.current().pid());
    assertThat(new TreeSet<>(processes)).hasSize(2);
  }

  @Test
  void ranksHaveTheNumbersOfTheirPartitions() {
    var rows = spark.parallelize(List.of("a", "b", "c", "d", "e", "f"), 3);
    List<String> results =
        SparkRanks.mapPartitions(
                rows,
                (group, partition) -> {
                  StringBuilder text = new StringBuilder();
                  partition.forEachRemaining(text::append);
                  return List.of(group.rank() + " of " + group.size() + ": " + text).iterator();
                })
            .collect();
    assertThat(results).containsExactly("0 of 3: ab", "1 of 3: cd", "2 of 3: ef");
  }

  @Test
  @Timeout(60)
  void aFailedTaskEndsTheOthers() {
    String path = directory.toString();
    assertThatThrownBy(
            () ->
                SparkRanks.call(
                    spark,
                    3,
                    group -> {
                      if (group.rank() == 1) {
                        throw new IllegalStateException("no weights");
                      }
                      try {
                        group.barrier(LONG);
                        return "no error";
                      } catch (PeerLostException e) {
                        Files.writeString(Path.of(path, "rank" + group.rank()), e.getMessage());
                        throw e;
                      }
                    }))
        .isInstanceOf(SparkException.class)
        .hasMessageContaining("no weights");
    for (int rank : new int[] {0, 2}) {
      assertThat(file("rank" + rank))
          .contains("EP4J-", "rank 1", "IllegalStateException: no weights");
    }
  }

  /** Spark repeats stages before a shuffle. */
  @Test
  @Timeout(60)
  void aRepeatedStageFormsANewGroup() {
    String path = directory.toString();
    List<Integer> numbers = IntStream.range(0, 2).boxed().toList();
    List<Integer> attempts =
        SparkRanks.mapPartitions(
                spark.parallelize(numbers, 2),
                (group, partition) -> {
                  int attempt = TaskContext.get().stageAttemptNumber();
                  Files.writeString(
                      Path.of(path, "job%d-%d".formatted(attempt, group.rank())), group.jobId());
                  group.barrier(LONG);
                  if (attempt == 0 && group.rank() == 0) {
                    throw new IllegalStateException("the first attempt fails");
                  }
                  group.barrier(LONG);
                  return List.of(attempt).iterator();
                })
            .repartition(1)
            .collect();
    assertThat(attempts).containsExactly(1, 1);
    assertThat(file("job0-0")).isEqualTo(file("job0-1"));
    assertThat(file("job1-0")).isEqualTo(file("job1-1")).isNotEqualTo(file("job0-0"));
  }

  @Test
  @Timeout(60)
  void aCancelledJobEndsWaits() throws Exception {
    String path = directory.toString();
    CompletableFuture<Object> job = new CompletableFuture<>();
    Thread.ofPlatform()
        .start(
            () -> {
              spark.setJobGroup("cancelled", "a rank that waits");
              try {
                job.complete(
                    SparkRanks.call(
                        spark,
                        2,
                        group -> {
                          if (group.rank() == 1) {
                            Files.createFile(Path.of(path, "joined"));
                            Thread.sleep(LONG);
                          }
                          try {
                            group.barrier(LONG);
                          } catch (GroupException e) {
                            Files.writeString(Path.of(path, "waited"), e.getMessage());
                            throw e;
                          }
                          return "no error";
                        }));
              } catch (Exception e) {
                job.completeExceptionally(e);
              }
            });
    await(directory.resolve("joined"));
    spark.cancelJobGroup("cancelled");
    assertThatThrownBy(() -> job.get(50, TimeUnit.SECONDS)).hasMessageContaining("cancelled");
    await(directory.resolve("waited"));
    assertThat(file("waited")).contains("EP4J-");
  }

  private static void await(Path file) throws InterruptedException {
    while (!Files.exists(file)) {
      Thread.sleep(20);
    }
  }

  private String file(String name) {
    try {
      return Files.readString(directory.resolve(name));
    } catch (IOException e) {
      throw new AssertionError("not written: " + name, e);
    }
  }
}
