package org.ep4j.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import org.apache.spark.SparkConf;

/** Clusters of Spark on this host: {@code local-cluster} starts a process for each executor. */
final class Cluster {
  private static final int MEMORY_MIB = 512;

  private Cluster() {}

  /** Executors with the class path of the tests. */
  static SparkConf of(int executors, int cores) throws IOException {
    // A distribution has its jars there.
    Files.createDirectories(
        Path.of(Objects.requireNonNull(System.getenv("SPARK_HOME"))).resolve("jars"));
    return withoutPages("local-cluster[%d,%d,%d]".formatted(executors, cores, MEMORY_MIB))
        .set("spark.executor.memory", MEMORY_MIB + "m")
        .set("spark.executorEnv.JAVA_HOME", System.getProperty("java.home"))
        .set("spark.executor.extraClassPath", System.getProperty("java.class.path"))
        .set(
            "spark.executor.extraJavaOptions",
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dep4j.host.vectorBits=0");
  }

  /** Threads of this JVM. */
  static SparkConf threads(int cores) {
    return withoutPages("local[%d]".formatted(cores));
  }

  private static SparkConf withoutPages(String master) {
    return new SparkConf().setAppName("test").setMaster(master).set("spark.ui.enabled", "false");
  }
}
