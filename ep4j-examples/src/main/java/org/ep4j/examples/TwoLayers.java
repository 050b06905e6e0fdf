package org.ep4j.examples;

import org.ep4j.ExpertBuffer;
import org.ep4j.group.Group;

/**
 * Two Mixture-of-Experts layers with residual connections on one buffer: layers that run one after
 * the other share its memory. A buffer of their own is only needed by layers whose operations
 * overlap, or whose shapes differ.
 *
 * <p>What a layer returns is a copy. A layer that returned the views of its combine could hand them
 * to the dispatch of the next layer, because they live until the next combine, but not keep them
 * for the residual of the layer after.
 */
final class TwoLayers {
  private final MoeLayer first;
  private final MoeLayer second;

  /** Two layers of the same shape and different weights. */
  TwoLayers(ExpertBuffer buffer, ToyModel firstModel, ToyModel secondModel) {
    first = new MoeLayer(buffer, firstModel);
    second = new MoeLayer(buffer, secondModel);
  }

  /** The output of both layers for this rank's tokens [T, hidden]; collective. */
  float[] forward(float[] x) {
    float[] between = plus(x, first.forward(x));
    return plus(between, second.forward(between));
  }

  /** Runs both layers on every rank of a group. */
  static float[] run(Group group, ToyModel firstModel, ToyModel secondModel, int tokens) {
    try (ExpertBuffer buffer = MoeLayer.open(group, firstModel, tokens)) {
      return new TwoLayers(buffer, firstModel, secondModel)
          .forward(firstModel.tokens(group.rank(), tokens));
    }
  }

  private static float[] plus(float[] a, float[] b) {
    float[] sum = a.clone();
    for (int i = 0; i < sum.length; i++) {
      sum[i] += b[i];
    }
    return sum;
  }
}
