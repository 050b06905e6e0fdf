package org.ep4j.engine.host.lowlatency;

import org.ep4j.config.Layout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * State of a dispatch that its combine needs. There are three records: the results of the last two
 * dispatches are valid, and one combine of the dispatch before those may still be in flight.
 */
final class LowLatencyRecord {
  /** Number of the operation; identifies it across ranks. */
  long number;

  /** Tokens of this rank. */
  int tokens;

  /** Choices per token. */
  int topK;

  /** Elements of a row. */
  int hidden;

  /** Experts of the call on this rank. */
  int localExperts;

  /** For each expert of the call, that of the buffer; null: itself. */
  int @Nullable [] ofBuffer;

  /** Whether rows are by source ranks, one per token; else by experts. */
  boolean byRanks;

  /** Whether the dispatch sends weights, and the weights of this rank's choices, [tokens, topK]. */
  boolean weighted;

  final float[] weights;

  /** Experts of the buffer, [tokens, topK]. */
  final int[] ids;

  /** For each rank, the number of entries (token, expert), or tokens, sent to it. */
  final int[] sent;

  /** For each source rank, the rows of its entries, in the order of its list. */
  final int[][] rows;

  /** For each source rank, the number of its entries. */
  final int[] received;

  /**
   * For each rank of another node, the index of the first of this rank's answers that its rows
   * fill.
   */
  final int[] answerFrom;

  /**
   * For each source rank of another node, the index of the first of its answers that its rows fill.
   */
  final int[] answerTo;

  /**
   * Whether ids and weights are those of the dispatch. Its reader of the routing writes it last; a
   * combine that sees it may read them on another thread.
   */
  volatile boolean read;

  /** Describes a dispatch whose routing is not read yet. */
  void describe(
      Layout layout, Tensor topkIdx, boolean weights, int local, int @Nullable [] translation) {
    tokens = (int) topkIdx.size(0);
    topK = (int) topkIdx.size(1);
    byRanks = layout == Layout.RANK_MAJOR;
    weighted = weights;
    localExperts = local;
    ofBuffer = translation;
    read = false;
  }

  Layout layout() {
    return byRanks ? Layout.RANK_MAJOR : Layout.EXPERT_MAJOR;
  }

  /** The id in calls of an expert of the buffer, or -1. */
  int idInCall(int expert) {
    int[] translation = ofBuffer;
    if (translation == null || expert < 0) {
      return expert;
    }
    int id = 0;
    while (translation[id] != expert) {
      id++;
    }
    return id;
  }

  LowLatencyRecord(int ranks, int maxTokens, int topK, int localExperts) {
    ids = new int[Math.multiplyExact(maxTokens, topK)];
    weights = new float[ids.length];
    sent = new int[ranks];
    rows = new int[ranks][Math.multiplyExact(maxTokens, Math.min(topK, localExperts))];
    received = new int[ranks];
    answerFrom = new int[ranks];
    answerTo = new int[ranks];
  }
}
