package org.ep4j.verify;

import org.ep4j.Combine;
import org.ep4j.Dispatch;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.RankMajorDispatch;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** The outputs of results of any layout; null where a result does not have them. */
public final class Outputs {
  private Outputs() {}

  /** The scales, or null. */
  public static @Nullable Tensor scales(Dispatch dispatch) {
    return dispatch.hasScales() ? dispatch.scales() : null;
  }

  /** The NVFP4 factors, or null. */
  public static @Nullable Tensor globalScales(Dispatch dispatch) {
    return dispatch.hasGlobalScales() ? dispatch.globalScales() : null;
  }

  /** The weights: FLAT [N, K], EXPERT_MAJOR [N]; or null. */
  public static @Nullable Tensor weights(Dispatch dispatch) {
    if (!dispatch.hasWeights()) {
      return null;
    }
    return dispatch instanceof GroupedDispatch grouped
        ? grouped.rowWeights()
        : ((FlatDispatch) dispatch).topkWeights();
  }

  /** The weight sums, or null. */
  public static @Nullable Tensor weights(Combine combine) {
    return combine.hasWeights() ? combine.topkWeights() : null;
  }

  /** The scales, or null. */
  public static @Nullable Tensor scales(LowLatencyDispatch dispatch) {
    return dispatch.hasScales() ? dispatch.scales() : null;
  }

  /** The weights: EXPERT_MAJOR [L, R*M], RANK_MAJOR [R, M, K]; or null. */
  public static @Nullable Tensor weights(LowLatencyDispatch dispatch) {
    if (!dispatch.hasWeights()) {
      return null;
    }
    return dispatch instanceof RankMajorDispatch byRank
        ? byRank.topkWeights()
        : dispatch.rowWeights();
  }
}
