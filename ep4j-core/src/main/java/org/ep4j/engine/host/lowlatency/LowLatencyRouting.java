package org.ep4j.engine.host.lowlatency;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.config.Layout;
import org.ep4j.engine.Arguments;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** Reads the ids and weights of a caller's routing and checks each of them. */
final class LowLatencyRouting {
  /** Experts of the buffer. */
  private final int experts;

  /**
   * For each expert, the number of the last row of ids with that expert; row numbers are never
   * reused.
   */
  private final long[] lastRow;

  private long row;

  LowLatencyRouting(int experts) {
    this.experts = experts;
    this.lastRow = new long[experts];
  }

  /**
   * Fills {@link LowLatencyRecord#ids} for a dispatch.
   *
   * @param ofBuffer for each expert of the call, that of the buffer; null: itself
   */
  void read(Tensor topkIdx, int @Nullable [] ofBuffer, LowLatencyRecord record) {
    int ofCall = ofBuffer == null ? experts : ofBuffer.length;
    int tokens = (int) topkIdx.size(0);
    int topK = (int) topkIdx.size(1);
    int[] ids = record.ids;
    int at = 0;
    for (int token = 0; token < tokens; token++) {
      row++;
      for (int k = 0; k < topK; k++) {
        long id = id(topkIdx, at);
        if (id < -1 || id >= ofCall) {
          throw Arguments.noSuchExpert(token, k, id, ofCall);
        }
        int expert = id < 0 || ofBuffer == null ? (int) id : ofBuffer[(int) id];
        if (expert >= 0) {
          if (lastRow[expert] == row) {
            throw Arguments.duplicateExpert(token, k, id);
          }
          lastRow[expert] = row;
        }
        ids[at++] = expert;
      }
    }
    record.tokens = tokens;
    record.topK = topK;
    record.ofBuffer = ofBuffer;
  }

  /**
   * Records the row layout of a dispatch, and the weights that it sends.
   *
   * @param topkWeights null: the dispatch sends no weights
   */
  static void readLayout(Layout layout, @Nullable Tensor topkWeights, LowLatencyRecord record) {
    record.byRanks = layout == Layout.RANK_MAJOR;
    record.weighted = topkWeights != null;
    if (topkWeights != null) {
      int slots = record.tokens * record.topK;
      MemorySegment.copy(
          topkWeights.segment(), ValueLayout.JAVA_FLOAT_UNALIGNED, 0, record.weights, 0, slots);
    }
  }

  /**
   * Reads the routing of a combine: ids as dispatched, or -1 for choices to skip.
   *
   * @param kept for each choice, whether it counts
   */
  static void readAgain(
      Tensor topkIdx,
      Tensor topkWeights,
      LowLatencyRecord record,
      boolean[] kept,
      float[] weights) {
    int slots = record.tokens * record.topK;
    int[] ofBuffer = record.ofBuffer;
    for (int at = 0; at < slots; at++) {
      long id = id(topkIdx, at);
      boolean exists = ofBuffer == null || id < ofBuffer.length;
      long expert = ofBuffer != null && exists && id >= 0 ? ofBuffer[(int) id] : id;
      if (id != -1 && !(exists && expert == record.ids[at])) {
        throw Arguments.notAsDispatched(
            at / record.topK, at % record.topK, id, record.idInCall(record.ids[at]));
      }
      kept[at] = id >= 0;
    }
    MemorySegment.copy(
        topkWeights.segment(), ValueLayout.JAVA_FLOAT_UNALIGNED, 0, weights, 0, slots);
  }

  /**
   * Reads the experts that order the sums of a combine.
   *
   * @param experts of each choice; any value for choices to skip
   */
  static void readExperts(Routing routing, LowLatencyRecord record, long[] experts) {
    Tensor logical = routing.logicalIdx();
    Tensor ids = logical == null ? routing.topkIdx() : logical;
    for (int at = 0; at < record.tokens * record.topK; at++) {
      experts[at] = id(ids, at);
    }
  }

  private static long id(Tensor topkIdx, int at) {
    return topkIdx.dtype() == DType.INT64 ? topkIdx.getLong(at) : topkIdx.getInt(at);
  }
}
