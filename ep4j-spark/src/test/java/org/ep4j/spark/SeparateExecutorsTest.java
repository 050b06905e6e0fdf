package org.ep4j.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Executors that share no memory, as in containers or on several hosts. */
class SeparateExecutorsTest {
  @Test
  void reachEachOtherOverAWire(@TempDir Path home) throws Exception {
    assumeTrue(Boolean.getBoolean("ep4j.full"), "starts two JVMs; -Dep4j.full=true runs it");
    String mount = "mount -t tmpfs tmpfs /dev/shm";
    assumeTrue(
        new ProcessBuilder("unshare", "--mount", "sh", "-c", mount).start().waitFor() == 0,
        "needs root, for a /dev/shm of each executor");
    Path java = Files.createDirectories(home.resolve("bin")).resolve("java");
    Files.writeString(
        java,
        """
        #!/bin/sh
        exec unshare --mount sh -c '%s && exec "$0" "$@"' %s/bin/java "$@"
        """
            .formatted(mount, System.getProperty("java.home")));
    assertThat(java.toFile().setExecutable(true)).isTrue();
    try (var spark =
        new JavaSparkContext(
            Cluster.of(2, 1).set("spark.executorEnv.JAVA_HOME", home.toString()))) {
      List<Object> memories =
          SparkRanks.call(spark, 2, group -> Files.getAttribute(Path.of("/dev/shm"), "unix:dev"));
      assertThat(new HashSet<>(memories)).hasSize(2);
      List<float[]> sums = SparkRanks.call(spark, 2, group -> Step.run(group, 0));
      assertThat(sums.toArray(float[][]::new)).isDeepEqualTo(Step.expected(2));
    }
  }
}
