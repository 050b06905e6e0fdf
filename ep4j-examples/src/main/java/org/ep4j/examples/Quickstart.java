package org.ep4j.examples;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;

import java.util.Arrays;
import org.ep4j.Combine;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** The route of a token: open, dispatch, expert, combine, close. Two ranks, two experts each. */
public final class Quickstart {
  private Quickstart() {}

  /** Runs the ranks as threads; processes use {@link Group#fromEnvironment()} instead. */
  public static void main(String... arguments) {
    ThreadRanks.run(2, group -> System.out.println(Arrays.toString(forward(group))));
  }

  /** Work of each rank with its two tokens of four elements; every expert multiplies by ten. */
  static float[] forward(Group group) {
    var limits = HighThroughputConfig.builder().maxTokens(2).rowDType(DType.FP32).build();
    var config = BufferConfig.builder().engine(EngineName.HOST).hidden(4).topK(2).experts(4);
    try (var buffer = ExpertBuffer.open(group, config.highThroughput(limits).build())) {
      Tensor x = Tensor.of(new float[] {1, 2, 3, 4, 5, 6, 7, 8}, 2, 4);
      int topK = 2; // the first token goes to experts 0 and 2
      float[] shares = {.75f, .25f, .5f, .5f};
      Routing routing = Routing.of(new int[] {0, 2, 3, 1}, shares, topK);
      FlatDispatch received = buffer.dispatch(x, routing);
      Tensor weights = received.topkWeights(); // 0 for experts of other ranks
      for (long i = 0; i < received.rows() * 4; i++) {
        float weight = weights.getFloat(i / 4 * 2) + weights.getFloat(i / 4 * 2 + 1);
        float value = 10 * weight * received.x().getFloat(i);
        received.x().segment().setAtIndex(JAVA_FLOAT, i, value); // in place: combine copies nothing
      }
      Combine sums = buffer.combine(received.x(), received.handle());
      return sums.x().segment().toArray(JAVA_FLOAT);
    }
  }
}
