package org.ep4j.examples.spark;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;

import java.util.Arrays;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.group.Group;
import org.ep4j.routing.Routing;
import org.ep4j.spark.SparkRanks;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** A step of a Mixture-of-Experts layer over executors: {@code MoeStep RANKS}. */
public final class MoeStep {
  private MoeStep() {}

  /** Prints the result of each rank. */
  public static void main(String... arguments) {
    int ranks = Integer.parseInt(arguments[0]);
    try (var spark = new JavaSparkContext(new SparkConf().setAppName("ep4j"))) {
      for (float[] sums : SparkRanks.call(spark, ranks, MoeStep::forward)) {
        System.out.println(Arrays.toString(sums));
      }
    }
  }

  /** One token a rank, of four elements; rank r owns expert r, which multiplies by r + 1. */
  static float[] forward(Group group) {
    int rank = group.rank();
    int ranks = group.size();
    var limits = HighThroughputConfig.builder().maxTokens(1).rowDType(DType.FP32).build();
    var config = BufferConfig.builder().hidden(4).topK(2).experts(ranks).highThroughput(limits);
    try (var buffer = ExpertBuffer.open(group, config.build())) {
      Tensor x = Tensor.of(new float[] {rank, 1, 2, 3}, 1, 4);
      int[] experts = {rank, (rank + 1) % ranks};
      var received = buffer.dispatch(x, Routing.of(experts, new float[] {.75f, .25f}, 2));
      for (long i = 0; i < received.rows() * 4; i++) {
        Tensor weights = received.topkWeights(); // 0 for experts of other ranks
        float weight = weights.getFloat(i / 4 * 2) + weights.getFloat(i / 4 * 2 + 1);
        float value = (rank + 1) * weight * received.x().getFloat(i);
        received.x().segment().setAtIndex(JAVA_FLOAT, i, value);
      }
      return buffer.combine(received.x(), received.handle()).x().segment().toArray(JAVA_FLOAT);
    }
  }
}
