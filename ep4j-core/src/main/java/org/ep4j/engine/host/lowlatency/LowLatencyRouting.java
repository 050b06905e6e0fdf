package org.ep4j.engine.host.lowlatency;

import static java.util.Objects.requireNonNull;

import org.ep4j.engine.Arguments;
import org.ep4j.engine.host.context.CallerTensors;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;

/**
 * Reads the ids and weights of a caller's routing and checks each of them. Used by one thread at a
 * time.
 */
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

  /** Fills ids and weights of a record that describes the dispatch. */
  void read(Routing routing, LowLatencyRecord record) {
    Tensor topkIdx = routing.topkIdx();
    int[] ofBuffer = record.ofBuffer;
    int ofCall = ofBuffer == null ? experts : ofBuffer.length;
    int[] ids = record.ids;
    int at = 0;
    for (int token = 0; token < record.tokens; token++) {
      row++;
      for (int k = 0; k < record.topK; k++) {
        long id = CallerTensors.id(topkIdx, at);
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
    if (record.weighted) {
      CallerTensors.floats(requireNonNull(routing.topkWeights()), record.weights, at);
    }
    record.read = true;
  }

  /**
   * Reads the routing of a combine: ids as dispatched, or -1 for choices to skip.
   *
   * @param kept for each choice, whether it counts
   */
  static void readAgain(Routing routing, LowLatencyRecord record, boolean[] kept, float[] weights) {
    Tensor topkIdx = routing.topkIdx();
    int slots = record.tokens * record.topK;
    int[] ofBuffer = record.ofBuffer;
    for (int at = 0; at < slots; at++) {
      long id = CallerTensors.id(topkIdx, at);
      boolean exists = ofBuffer == null || id < ofBuffer.length;
      long expert = ofBuffer != null && exists && id >= 0 ? ofBuffer[(int) id] : id;
      if (id != -1 && !(exists && expert == record.ids[at])) {
        throw Arguments.notAsDispatched(
            at / record.topK, at % record.topK, id, record.idInCall(record.ids[at]));
      }
      kept[at] = id >= 0;
    }
    CallerTensors.floats(requireNonNull(routing.topkWeights()), weights, slots);
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
      experts[at] = CallerTensors.id(ids, at);
    }
  }
}
